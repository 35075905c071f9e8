// Order of the records of a Data layer: from any format, in order and shuffled, from caches, in
// shards.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/data_set_source.h"
#include "data/layer_runner.h"
#include "data/record_sets.h"
#include "data/records/lmdb.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using test::TestRegistry;
using testing::DataText;
using testing::GrayDatum;
using testing::LayerRunner;
using testing::WriteGraySet;

// Formats with images that this build can decode.
std::vector<DataParameter::DB> ReadableBackends(const TempDir& temp) {
  std::vector<DataParameter::DB> backends = testing::Backends(temp);
#ifndef CREMA_HAVE_OPENCV
  std::erase(backends, DataParameter::TAR);  // image files need OpenCV
#endif
  return backends;
}

TEST(DataOrder, EpochsHaveRandomNumbersOfTheirOwn) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string text = DataText(WriteGraySet(temp, 8), "batch_size: 8", "crop_size: 1");
  LayerRunner runner(registry, text);
  const std::vector<float> first = runner.Collect(0, 1);
  EXPECT_NE(first, runner.Collect(0, 1));
  LayerRunner other_seed(registry, text, TRAIN, DType::kF32, 2);
  EXPECT_NE(first, other_seed.Collect(0, 1));
  LayerRunner same_seed(registry, text);
  EXPECT_EQ(first, same_seed.Collect(0, 1));
}

TEST(DataOrder, AllKindsOfDataSetsGiveTheSameBatches) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  for (const char* order :
       {"", "shuffle: true", "shuffle_buffer: 4", "shuffle: true shuffle_buffer: 3"}) {
    std::vector<float> expected;
    for (const DataParameter::DB backend : ReadableBackends(temp)) {
      const TempDir folder;
      const std::string source = WriteGraySet(folder, 10, backend);
      for (const int threads : {1, 2, 3, 8}) {
        const std::string text =
            StrCat(DataText(source, "batch_size: 4", "mirror: true crop_size: 2"),
                   " pipeline_param { threads: ", threads, " prefetch: 2 ", order, " }");
        LayerRunner runner(registry, text);
        const std::vector<float> values = runner.Collect(0, 12);
        if (expected.empty()) expected = values;
        ASSERT_EQ(values, expected) << source << " " << threads;
        for (const uint64_t position : {12, 20, 4}) {
          LayerState state;
          state.set_position(position);
          LayerRunner resumed(registry, text);
          resumed.state().Restore(state);
          const auto from = expected.begin() + static_cast<int64_t>(position) * 4;
          ASSERT_EQ(resumed.Collect(0, 5), std::vector<float>(from, from + 5 * 4 * 4)) << source;
        }
      }
    }
  }
}

TEST(DataOrder, CachedRecordsAndPixelsGiveTheSameBatches) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  for (const char* order : {"", "shuffle: true", "shuffle_buffer: 4"}) {
    for (const DataParameter::DB backend : ReadableBackends(temp)) {
      const TempDir folder;
      const std::string text = StrCat(
          DataText(WriteGraySet(folder, 10, backend), "batch_size: 4", "mirror: true crop_size: 2"),
          " pipeline_param { ", order, " ");
      LayerRunner plain(registry, text + "}");
      const std::vector<float> labels = plain.Collect(1, 12);
      const std::vector<float> values = plain.Collect(0, 12);
      for (const char* cache : {"ENCODED cache_mb: 64", "DECODED cache_mb: 64", "DECODED"}) {
        LayerRunner runner(registry, StrCat(text, "cache: ", cache, " }"));
        ASSERT_EQ(runner.Collect(1, 12), labels) << cache << order;
        ASSERT_EQ(runner.Collect(0, 12), values) << cache << order;
        EXPECT_EQ(runner.state().SampleName(0).substr(0, 3), "key");
      }
    }
  }
}

TEST(DataOrder, ShuffledEpochsAreDifferentPermutations) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string source = WriteGraySet(temp, 20);
  const std::string shuffled = DataText(source, "batch_size: 20 shuffle: true");
  LayerRunner runner(registry, shuffled);
  std::vector<float> first = runner.Collect(1, 1);
  std::vector<float> second = runner.Collect(1, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(LayerRunner(registry,
                        DataText(source, "batch_size: 20") + " pipeline_param { shuffle: true }")
                .Collect(1, 1),
            first);
  EXPECT_NE(LayerRunner(registry, shuffled, TRAIN, DType::kF32, 2).Collect(1, 1), first);
  for (std::vector<float>* epoch : {&first, &second}) {
    std::ranges::sort(*epoch);
    for (int i = 0; i < 20; ++i) EXPECT_EQ((*epoch)[static_cast<size_t>(i)], i);
  }
}

TEST(DataOrder, BlocksAreShuffledWithinThemselves) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string text =
      DataText(WriteGraySet(temp, 10), "batch_size: 5") + " pipeline_param { shuffle_buffer: 5 }";
  LayerRunner runner(registry, text);
  bool permuted = false;
  for (int block = 0; block < 8; ++block) {
    std::vector<float> labels = runner.Collect(1, 1);
    permuted |= !std::ranges::is_sorted(labels);
    std::ranges::sort(labels);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(labels[static_cast<size_t>(i)], block % 2 * 5 + i);
    }
  }
  EXPECT_TRUE(permuted);
}

TEST(DataOrder, BadRecordsMayBeSkippedWhileTheyAreShuffled) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  LmdbWriter writer(temp.File("set"));
  for (int i = 0; i < 8; ++i) {
    writer.Put(StrCat("key", i), i == 3 ? "\xFF\xFF" : GrayDatum(3, 4, i).SerializeAsString());
  }
  writer.Close();
  for (const char* order : {"", "shuffle: true", "shuffle_buffer: 4"}) {
    LayerRunner runner(registry, StrCat(DataText(temp.File("set"), "batch_size: 8"),
                                        " pipeline_param { on_bad_sample: SKIP ", order, " }"));
    std::vector<float> labels = runner.Collect(1, 1);
    EXPECT_EQ(std::set<float>(labels.begin(), labels.end()),
              (std::set<float>{0, 1, 2, 4, 5, 6, 7}));
  }
}

TEST(DataOrder, RandSkipStartsWithinItsBoundAndResumes) {
  TempDir temp;
  const Registry& registry = TestRegistry();
  const std::string text = DataText(WriteGraySet(temp, 7), "batch_size: 1 rand_skip: 5");
  std::set<float> firsts;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    LayerRunner runner(registry, text, TRAIN, DType::kF32, seed);
    firsts.insert(runner.Collect(1, 1)[0]);
  }
  EXPECT_EQ(firsts, (std::set<float>{0, 1, 2, 3, 4}));
  LayerRunner runner(registry, text);
  const float start = runner.Collect(1, 3)[0];
  LayerState saved;
  runner.state().Save(&saved);
  EXPECT_EQ(saved.position(), static_cast<uint64_t>(start) + 3);
  const std::vector<float> expected = runner.Collect(1, 9);
  LayerRunner resumed(registry, text);
  resumed.state().Restore(saved);
  EXPECT_EQ(resumed.Collect(1, 9), expected);
}

TEST(DataOrder, ShardsPartTheSequenceAndRotate) {
  TempDir temp;
  const std::string path = WriteGraySet(temp, 5);
  for (uint64_t rank = 0; rank < 3; ++rank) {
    DataSetSource source(path, {.rank = rank, .world = 3});
    for (const uint64_t start : {0, 4}) {
      source.Seek(start);
      for (uint64_t position = start; position < start + 10; ++position) {
        Record record;
        source.Read(&record);
        EXPECT_EQ(record.ordinal, position * 3 + rank);
        EXPECT_EQ(record.key, StrCat("key", record.ordinal % 5));
      }
    }
  }
}

}  // namespace
}  // namespace crema
