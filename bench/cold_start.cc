// Loads a model and answers one request: what bench/cold_start.sh times.
//   cold_start export NET WEIGHTS FILE   writes weights drawn at random, and the model file
//   cold_start net NET WEIGHTS           a prototxt and a caffemodel
//   cold_start file FILE                 a .crema file
//   cold_start runners FILE COUNT        memory with 1 .. COUNT runners that have answered
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "inference/crema_export.h"
#include "inference/model.h"

namespace {

using namespace crema;  // NOLINT: a program

// Statistics become 1: by those of a net that was never trained nothing can be divided.
void WriteDrawnWeights(const NetFile& net, const std::string& path, const Registry& registry) {
  NetState state;
  state.set_phase(TEST);
  std::vector<Problem> warnings;
  const auto plan = MakePlan(net.net, net.source, state, registry, {.backward = false}, &warnings);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 1);
  for (size_t s = 0; s < plan->parameters.size(); ++s) {
    if (plan->parameters[s].statistic) std::ranges::fill(weights->blob(s).span<float>(), 1.0F);
  }
  WriteCaffemodel(weights->Export(*plan), path);
}

void AnswerOnce(const Model& model, ModelRunner* runner) {
  std::vector<int64_t> dims = model.inputs()[0].shape;
  if (dims[0] == -1) dims[0] = 1;
  const Tensor input(Shape(std::span<const int64_t>(dims)), DType::kF32);
  const NamedTensor given{model.inputs()[0].name, input.view()};
  runner->Run({&given, 1});
  std::printf("%g\n", double{runner->Output(model.outputs()[0].name).data<float>()[0]});
}

void AnswerOnce(const std::shared_ptr<const Model>& model) {
  ModelRunner runner(model);
  AnswerOnce(*model, &runner);
}

// VmRSS, and what of it is no file.
std::string Resident() {
  std::ifstream status("/proc/self/status");
  std::string text;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS") || line.starts_with("RssAnon")) text += line + "  ";
  }
  return text;
}

void ShowMemoryOfRunners(const std::shared_ptr<const Model>& model, int count) {
  std::vector<std::unique_ptr<ModelRunner>> runners;
  for (int i = 1; i <= count; ++i) {
    runners.push_back(std::make_unique<ModelRunner>(model));
    AnswerOnce(*model, runners.back().get());
    std::printf("%d: %s\n", i, Resident().c_str());
  }
}

int Run(const std::vector<std::string>& args) {
  const Registry registry = BuiltinRegistry();
  if (args.size() == 4 && args[0] == "export") {
    const NetFile net = ReadNet(args[1]);
    WriteDrawnWeights(net, args[2], registry);
    ExportModel(Model::Make(net, {.paths = {args[2]}}, {}, {}, registry, NullSink()), args[3]);
  } else if (args.size() == 3 && args[0] == "net") {
    AnswerOnce(Model::Make(ReadNet(args[1]), {.paths = {args[2]}}, {}, {}, registry, NullSink()));
  } else if (args.size() == 2 && args[0] == "file") {
    AnswerOnce(Model::Open(args[1], {}, registry, NullSink()));
  } else if (args.size() == 3 && args[0] == "runners") {
    ShowMemoryOfRunners(Model::Open(args[1], {}, registry, NullSink()), std::stoi(args[2]));
  } else {
    std::fputs("see the head of bench/cold_start.cc\n", stderr);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run({argv + 1, argv + argc});
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return ExitCode(error.code());
  }
}
