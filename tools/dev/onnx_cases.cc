// onnx_cases: imports and runs many ONNX models, for tests/onnx/backend_scores.py. Reads the names
// of folders from the standard input. A folder has model.onnx and inputs.txt, whose lines are
// "name", a tab and a .npy file. Writes outputs as output_0.npy, ... and prints a line for each
// folder: "ok" and the names of the outputs, "refused" (by the import) or "failed" and the message,
// with tabs.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "core/tensor.h"
#include "format/file.h"
#include "format/npy.h"
#include "inference/model.h"
#include "onnx/import.h"

namespace crema {
namespace {

std::string OneLine(std::string text) {
  for (char& letter : text) {
    if (letter == '\n') letter = '|';
    if (letter == '\t') letter = ' ';
  }
  return text;
}

std::map<std::string, Tensor> ReadInputs(const std::string& folder) {
  std::map<std::string, Tensor> inputs;
  std::ifstream file(folder + "/inputs.txt");
  for (std::string line; std::getline(file, line);) {
    const size_t tab = line.find('\t');
    const std::string path = folder + "/" + line.substr(tab + 1);
    inputs.emplace(line.substr(0, tab), ParseNpy(ReadFile(path), path));
  }
  return inputs;
}

// A model needs an input; graphs of constants get one that nothing uses.
void AddInput(NetParameter* net) {
  for (const LayerParameter& layer : net->layer()) {
    if (layer.type() == "Input") return;
  }
  LayerParameter* input = net->add_layer();
  input->set_name("unused");
  input->set_type("Input");
  input->add_top("unused");
  input->mutable_input_param()->add_shape()->add_dim(1);
  LayerParameter* silence = net->add_layer();
  silence->set_name("unused/silence");
  silence->set_type("Silence");
  silence->add_bottom("unused");
}

std::string RunCase(const std::string& folder, const Registry& registry) {
  std::map<std::string, Tensor> inputs = ReadInputs(folder);
  ImportOptions options;
  for (const auto& [name, value] : inputs) options.shapes[name] = value.view().shape();
  std::erase_if(inputs, [](const auto& input) { return input.second.view().count() == 0; });
  NetFile net;
  try {
    net.net = ImportOnnx(folder + "/model.onnx", options).net;
  } catch (const std::exception& error) {
    return StrCat("refused\t", OneLine(error.what()));
  }
  const bool constant = inputs.empty();
  if (constant) AddInput(&net.net);
  const auto model = Model::Make(net, {}, {}, {}, registry, NullSink());
  ModelRunner runner(model);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, value] : inputs) tensors.push_back({name, value.view()});
  const float zero = 0;
  if (constant) tensors.push_back({"unused", ConstTensorView(&zero, Shape({1}), DType::kF32)});
  runner.Run(tensors);
  std::string line = "ok";
  int index = 0;
  for (const BlobInfo& output : model->outputs()) {
    WriteFileAtomically(StrCat(folder, "/output_", index++, ".npy"),
                        FormatNpy(runner.Output(output.name)));
    line += StrCat("\t", output.name);
  }
  return line;
}

int RunAll() {
  const Registry registry = BuiltinRegistry();
  for (std::string folder; std::getline(std::cin, folder);) {
    std::string line;
    try {
      line = RunCase(folder, registry);
    } catch (const std::exception& error) {
      line = StrCat("failed\t", OneLine(error.what()));
    }
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace crema

int main() { return crema::RunAll(); }
