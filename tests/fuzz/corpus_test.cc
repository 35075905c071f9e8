// Every broken file ends in an Error or is accepted; none crashes, hangs or takes all memory.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "format/file.h"
#include "fuzz/heap_peak.h"
#include "support/fuzz_corpus.h"
#include "support/fuzz_targets.h"

namespace crema::test {
namespace {

using Target = std::string (*)(std::string_view);

const std::map<std::string, Target>& Targets() {
  static const std::map<std::string, Target> targets = {
      {"prototxt", TryPrototxt},
      {"solver", TrySolver},
      {"caffemodel", TryCaffemodel},
      {"solverstate", TrySolverState},
      {"hdf5", TryHdf5},
      {"datum", TryDatum},
      {"image", TryImage},
      {"annotated", TryAnnotated},
      {"tar", TryTar},
      {"lmdb", TryLmdb},
      {"list", TryList},
      {"windows", TryWindows},
      {"hdf5rows", TryHdf5Rows},
      {"modelfile", TryModelFile},
      {"statedict", TryStateDict},
      {"onnx", TryOnnx},
      {"onnxnet", TryOnnxNet},
  };
  return targets;
}

TEST(Corpus, WholeFilesAreAccepted) {
  for (const CorpusFile& file : WholeFiles()) {
    const std::string error = Targets().at(file.target)(file.bytes);
    EXPECT_EQ(error, "") << file.name;
  }
}

void Check(const CorpusFile& file) {
  const int64_t before = StartHeapPeak();
  std::string error;
  ASSERT_NO_THROW(error = Targets().at(file.target)(file.bytes)) << file.name;
  EXPECT_NE(error.find(file.expect), std::string::npos)
      << file.name << ": " << error.substr(0, 400);
  EXPECT_LE(HeapPeak() - before, MostBytesFor(file.bytes.size())) << file.name;
}

class Broken : public testing::TestWithParam<std::string> {};

TEST_P(Broken, EndsInAnErrorOrNothing) {
  size_t count = 0;
  for (const CorpusFile& file : BrokenFiles()) {
    if (file.target != GetParam()) continue;
    ++count;
    Check(file);
  }
  RecordProperty("files", static_cast<int>(count));
#ifdef CREMA_HAVE_HDF5
  EXPECT_GT(count, 0U);
#endif
}

INSTANTIATE_TEST_SUITE_P(Corpus, Broken,
                         testing::Values("prototxt", "solver", "caffemodel", "solverstate", "hdf5",
                                         "datum", "image", "annotated", "tar", "lmdb", "list",
                                         "windows", "hdf5rows", "modelfile", "statedict", "onnx",
                                         "onnxnet"),
                         [](const auto& param) { return param.param; });

// Findings of fuzzing that were fixed: <target>-<problem>.
TEST(Corpus, FoundFilesBreakNothing) {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(CREMA_SOURCE_DIR) + "/tests/fuzz/found")) {
    const std::string name = entry.path().filename();
    const std::string target = name.substr(0, name.find('-'));
    ASSERT_TRUE(Targets().contains(target)) << name;
    Check({name, target, ReadFile(entry.path()), ""});
    ++count;
  }
  EXPECT_GT(count, 0U);
}

TEST(Corpus, HasAtLeast150BrokenFiles) { EXPECT_GE(BrokenFiles().size(), 150U); }

}  // namespace
}  // namespace crema::test
