// GRU, LSTM and Attention against values recorded from PyTorch
// (tests/recordings/record_sequence.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/layer_run.h"

namespace crema::test {
namespace {

struct RecordedTensor {
  std::vector<int64_t> shape;
  Values values;
};

struct RecordedSequence {
  std::string type;
  std::string prototxt;
  std::map<std::string, std::vector<RecordedTensor>> tensors;  // by kind, in order
};

RecordedSequence Read(const std::string& name) {
  std::ifstream file(std::string(CREMA_SOURCE_DIR) + "/tests/recordings/" + name + ".txt");
  RecordedSequence recording;
  std::getline(file, recording.type);
  std::getline(file, recording.prototxt);
  std::string line, kind, word;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    words >> kind;
    RecordedTensor tensor;
    while (words >> word && word != ":" && word != "-") tensor.shape.push_back(std::stoll(word));
    double value = 0;
    while (words >> value) tensor.values.push_back(value);
    recording.tensors[kind].push_back(std::move(tensor));
  }
  return recording;
}

void ExpectNear(const std::vector<Values>& got, const std::vector<RecordedTensor>& expected,
                const std::string& what, double tolerance) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t k = 0; k < got.size(); ++k) {
    ASSERT_EQ(got[k].size(), expected[k].values.size()) << what << " " << k;
    for (size_t i = 0; i < got[k].size(); ++i) {
      EXPECT_NEAR(got[k][i], expected[k].values[i], tolerance) << what << " " << k << " at " << i;
    }
  }
}

class PyTorchRecording : public testing::TestWithParam<std::string> {};

TEST_P(PyTorchRecording, IsMet) {
  static const Registry registry = BuiltinRegistry();
  RecordedSequence recording = Read(GetParam());
  const LayerType* type = registry.Find(recording.type);
  ASSERT_NE(type, nullptr) << "no recording " << GetParam();
  LayerSample sample{.name = "recording", .prototxt = recording.prototxt, .inputs = {}};
  CaseValues values;
  for (const RecordedTensor& input : recording.tensors["input"]) {
    sample.inputs.push_back({.shape = input.shape});
    values.inputs.push_back(input.values);
  }
  for (const RecordedTensor& blob : recording.tensors["learned"]) {
    values.parameters.push_back(blob.values);
  }
  for (const RecordedTensor& grad : recording.tensors["output_grad"]) {
    values.output_grads.push_back(grad.values);
  }
  sample.outputs = static_cast<int>(values.output_grads.size());
  for (DType dtype : {DType::kF64, DType::kF32}) {
    const double tolerance = dtype == DType::kF64 ? 1e-10 : 1e-5;
    const LayerCase layer_case(*type, sample, dtype);
    const std::vector<RecordedTensor>& parameters = recording.tensors["learned"];
    ASSERT_EQ(layer_case.info().parameters.size(), parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_EQ(layer_case.info().parameters[i].shape, Shape(std::span(parameters[i].shape)));
    }
    const RunResult result = RunLayer(layer_case, values, {.backward = true});
    EXPECT_TRUE(result.failures.empty()) << result.failures.front();
    ExpectNear(result.outputs, recording.tensors["output"], "output", tolerance);
    ExpectNear(result.input_grads, recording.tensors["input_grad"], "input gradient", tolerance);
    ExpectNear(result.parameter_grads, recording.tensors["learned_grad"], "parameter gradient",
               tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Sequence, PyTorchRecording,
                         testing::Values("gru", "gru_bidirectional", "lstm", "lstm_bidirectional",
                                         "attention", "attention_causal",
                                         "attention_grouped_masked"),
                         [](const auto& type) { return type.param; });

}  // namespace
}  // namespace crema::test
