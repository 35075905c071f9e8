// Losses against the values and gradients of another library: tests/recordings/record_losses.py.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/strings.h"
#include "support/layer_expect.h"

namespace crema::test {
namespace {

struct RecordedLoss {
  std::string name;
  std::string layer;
  LayerCall call{.inputs = {}, .output_grads = {{1}}, .dtype = DType::kF64};
  double loss = 0;
  std::vector<std::pair<size_t, Values>> gradients;
};

// "6x5 -0.1 ...", or "scalar 3".
Blob ReadBlob(std::istream& stream) {
  std::string shape, value;
  stream >> shape;
  Blob blob;
  if (shape != "scalar") {
    for (const std::string& dim : Split(shape, 'x')) blob.shape.push_back(std::stoll(dim));
  }
  while (stream >> value) blob.values.push_back(std::strtod(value.c_str(), nullptr));
  return blob;
}

std::vector<RecordedLoss> ReadRecordings() {
  std::ifstream file(std::string(CREMA_SOURCE_DIR) + "/tests/recordings/losses.txt");
  std::vector<RecordedLoss> recordings;
  std::string line, word;
  while (std::getline(file, line)) {
    std::istringstream stream(line);
    stream >> word;
    if (word == "case") recordings.emplace_back();
    RecordedLoss& recording = recordings.back();
    if (word == "case") {
      stream >> recording.name;
    } else if (word == "layer") {
      stream >> recording.layer;
    } else if (word == "param") {
      std::getline(stream, recording.call.prototxt);
    } else if (word == "input") {
      recording.call.inputs.push_back(ReadBlob(stream));
    } else if (word == "loss") {
      recording.loss = ReadBlob(stream).values.at(0);
    } else if (word == "gradient") {
      size_t input = 0;
      stream >> input;
      recording.gradients.emplace_back(input, ReadBlob(stream).values);
    }
  }
  return recordings;
}

TEST(RecordedLossesTest, ValuesAndGradientsAgree) {
  const std::vector<RecordedLoss> recordings = ReadRecordings();
  EXPECT_EQ(recordings.size(), 18u);
  for (const RecordedLoss& recording : recordings) {
    SCOPED_TRACE(recording.name);
    const RunResult result = CallBuiltin(recording.layer, recording.call);
    ExpectNear(result.outputs[0], {recording.loss}, 1e-9);
    EXPECT_FALSE(recording.gradients.empty());
    for (const auto& [input, expected] : recording.gradients) {
      ExpectNear(result.input_grads[input], expected, 1e-9);
    }
  }
}

}  // namespace
}  // namespace crema::test
