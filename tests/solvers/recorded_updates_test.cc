// Updates against those of another library: tests/recordings/record_updates.py.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "support/update_call.h"

namespace crema::test {
namespace {

struct Recording {
  std::string rule;
  std::string fields;
  double rate = 0;
  double decay = 0;
  std::vector<double> weights;
  std::vector<std::vector<double>> gradients;
  std::vector<double> result;
};

std::vector<double> ReadRow(std::istream& stream) {
  std::vector<double> row;
  std::string value;
  while (stream >> value) row.push_back(std::strtod(value.c_str(), nullptr));
  return row;
}

std::vector<Recording> ReadRecordings() {
  std::ifstream file(std::string(CREMA_SOURCE_DIR) + "/tests/recordings/updates.txt");
  std::vector<Recording> recordings;
  std::string line, word;
  while (std::getline(file, line)) {
    std::istringstream stream(line);
    stream >> word;
    if (word == "case") recordings.emplace_back();
    Recording& recording = recordings.back();
    if (word == "case") {
      stream >> recording.rule;
    } else if (word == "fields") {
      std::getline(stream, recording.fields);
    } else if (word == "rate") {
      recording.rate = ReadRow(stream).at(0);
    } else if (word == "decay") {
      recording.decay = ReadRow(stream).at(0);
    } else if (word == "weights") {
      recording.weights = ReadRow(stream);
    } else if (word == "gradient") {
      recording.gradients.push_back(ReadRow(stream));
    } else if (word == "result") {
      recording.result = ReadRow(stream);
    }
  }
  return recordings;
}

TEST(RecordedUpdates, Agree) {
  const std::vector<Recording> recordings = ReadRecordings();
  EXPECT_EQ(recordings.size(), 12u);
  for (const Recording& recording : recordings) {
    SCOPED_TRACE(recording.rule);
    const UpdateRule& rule = *FindUpdateRule(recording.rule);
    const size_t count = recording.weights.size();
    std::vector<UpdateBlob<double>> blobs(1);
    blobs[0].weights = recording.weights;
    blobs[0].history.assign(static_cast<size_t>(rule.histories), std::vector<double>(count));
    blobs[0].rate = recording.rate;
    blobs[0].decay = recording.decay;
    ASSERT_EQ(recording.gradients.size(), 8u);
    for (size_t i = 0; i < recording.gradients.size(); ++i) {
      blobs[0].gradient = recording.gradients[i];
      Update(rule, SolverFields(recording.fields), 1, &blobs, static_cast<int64_t>(i));
    }
    ASSERT_EQ(recording.result.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_NEAR(blobs[0].weights[i], recording.result[i], 1e-9) << i;
    }
  }
}

}  // namespace
}  // namespace crema::test
