// AnnotatedData reads like Data: in any order, from any format, through caches, with bad records.
// Images and boxes do not depend on the number of workers or on the place where a run was resumed.
#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/deferred_warnings.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/annotated_sets.h"
#include "data/expect_error.h"
#include "data/layer_runner.h"
#include "data/record_sets.h"
#include "data/same_batches.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using test::TestRegistry;
using testing::ExpectError;
using testing::ExpectSameBatches;
using testing::kSampleOrders;
using testing::LayerRunner;
using testing::NextSamples;
using testing::Resume;
using testing::SamplesFrom;
using testing::WriteNumbered;

constexpr int kBoxRecords = 11;
constexpr const char* kSkippingPolicies[] = {"on_bad_sample: SKIP",
                                             "on_bad_sample: REPEAT prefetch: 1"};
constexpr const char* kCaches[] = {"cache: ENCODED cache_mb: 1", "cache: DECODED cache_mb: 1"};
constexpr const char* kAugmented =
    "mirror: true resize_param { height: 6 width: 6 } noise_param { prob: 0 } "
    "augment_param { brightness: 0.2 rotate: 20 }";

std::string BoxesLayer(const std::string& source, const std::string& transform = kAugmented,
                       int batch = 3) {
  return StrCat(
      "name: 'boxes' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '", source,
      "' batch_size: ", batch, " } transform_param { ", transform,
      " } annotated_data_param { batch_sampler { sampler { min_scale: 0.3 } max_sample: 1 "
      "max_trials: 5 } } ");
}

std::string Plain(const std::string& source, int batch = 3) {
  return StrCat(
      "name: 'boxes' type: 'AnnotatedData' top: 'data' top: 'label' data_param { source: '", source,
      "' batch_size: ", batch, " } ");
}

std::string With(const std::string& layer, const std::string& pipeline) {
  return StrCat(layer, " pipeline_param { ", pipeline, " }");
}

std::vector<std::string> Samples(const std::string& layer, int batches, uint64_t from = 0) {
  LayerRunner runner(TestRegistry(), layer);
  return SamplesFrom(&runner, from, batches);
}

class AnnotatedPipeline : public ::testing::TestWithParam<DataParameter::DB> {
 protected:
  void SetUp() override {
    if (!testing::CanWrite(GetParam(), temp_)) GTEST_SKIP() << "not in this build";
  }

  const TempDir temp_;
};

TEST_P(AnnotatedPipeline, BatchesAreTheSameForAnyWorkersAndFromAnySample) {
  const std::string layer = BoxesLayer(WriteNumbered(temp_, GetParam(), kBoxRecords));
  for (const char* order : kSampleOrders) ExpectSameBatches(TestRegistry(), layer, order);
  ExpectSameBatches(TestRegistry(), layer, "shuffle: true prefetch: 1");
}

TEST_P(AnnotatedPipeline, CachesChangeNothing) {
  const std::string layer = BoxesLayer(WriteNumbered(temp_, GetParam(), kBoxRecords));
  for (const char* order : kSampleOrders) {
    const std::vector<std::string> expected = Samples(With(layer, order), 12);
    for (const char* cache : kCaches) {
      const std::string pipeline = StrCat(order, " ", cache);
      EXPECT_EQ(Samples(With(layer, pipeline), 12), expected) << pipeline;
      ExpectSameBatches(TestRegistry(), layer, pipeline);
    }
  }
}

TEST_P(AnnotatedPipeline, BadRecordsAreReplacedTheSameWay) {
  // Two bad ones leave a good one in each batch of three.
  const std::string layer = BoxesLayer(WriteNumbered(temp_, GetParam(), kBoxRecords, {0, 6}));
  for (const char* order : kSampleOrders) {
    for (const char* policy : kSkippingPolicies) {
      const std::string plain = StrCat(order, " ", policy);
      const std::vector<std::string> expected = Samples(With(layer, plain), 12);
      ExpectSameBatches(TestRegistry(), layer, plain, 12, Resume::kBetweenBatches);
      for (const char* cache : kCaches) {
        EXPECT_EQ(Samples(With(layer, StrCat(plain, " ", cache)), 12), expected) << plain << cache;
      }
    }
  }
}

TEST_P(AnnotatedPipeline, BadRecordsAreToldAgainEachEpochFromACacheToo) {
  const std::string layer = Plain(WriteNumbered(temp_, GetParam(), 6, {4}));
  for (const char* cache : kCaches) {
    LayerRunner runner(TestRegistry(), With(layer, StrCat("on_bad_sample: SKIP ", cache)));
    SamplesFrom(&runner, 0, 6);
    const auto deferred_warnings =
        dynamic_cast<const HasDeferredWarnings&>(runner.state()).TakeWarnings();
    ASSERT_EQ(deferred_warnings.size(), 3u) << cache;
    EXPECT_NE(deferred_warnings[2].find("bad sample 3: record \"000004\" of"), std::string::npos)
        << deferred_warnings[2];
  }
}

// Returns the records of a batch with all of them, by the first pixel of each image.
std::vector<float> Epoch(LayerRunner* runner) {
  const std::vector<float> pixels = runner->Collect(0, 1);
  std::vector<float> numbers;
  for (size_t i = 0; i < kBoxRecords; ++i) numbers.push_back(pixels[i * 3 * 5 * 6]);
  return numbers;
}

TEST_P(AnnotatedPipeline, ShuffledEpochsAreDifferentPermutations) {
  const std::string layer = Plain(WriteNumbered(temp_, GetParam(), kBoxRecords), kBoxRecords);
  std::vector<float> all;
  for (int n = 0; n < kBoxRecords; ++n) all.push_back(static_cast<float>(n));
  LayerRunner ordered(TestRegistry(), layer);
  EXPECT_EQ(Epoch(&ordered), all);
  LayerRunner runner(TestRegistry(), With(layer, "shuffle: true"));
  std::set<std::vector<float>> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    std::vector<float> order = Epoch(&runner);
    orders.insert(order);
    std::ranges::sort(order);
    EXPECT_EQ(order, all);
    // Each image has its own boxes.
    ASSERT_EQ(runner.shapes[1], (Shape{1, 1, 15, 8}));
    const std::vector<float> pixels = test::ValuesOf(runner.outputs[0].view());
    const float* row = runner.outputs[1].view().data<float>();
    for (int i = 0; i < 15; ++i, row += 8) {
      EXPECT_EQ(row[1], pixels[static_cast<size_t>(row[0]) * 3 * 5 * 6]);
    }
  }
  EXPECT_EQ(orders.size(), 4u);
  EXPECT_EQ(runner.state().EpochSize(), kBoxRecords);
}

TEST_P(AnnotatedPipeline, TheFieldsOfDataParamAreReadToo) {
  const std::string layer = BoxesLayer(WriteNumbered(temp_, GetParam(), kBoxRecords));
  std::string own = layer;
  own.replace(own.find("batch_size"), 0, "shuffle: true cache: true ");
  EXPECT_EQ(Samples(own, 8), Samples(With(layer, "shuffle: true"), 8));
  EXPECT_NE(Samples(own, 8), Samples(layer, 8));
  EXPECT_EQ(test::PlanWarnings(StrCat("layer { ", own, " }")), "");
}

// A batch that begins in one epoch and ends in the next may hold the record with the most boxes
// twice.
TEST_P(AnnotatedPipeline, ShuffledBatchesHaveRoomForTheirBoxes) {
  const std::string layer = Plain(WriteNumbered(temp_, GetParam(), 4), 3);
  LayerRunner ordered(TestRegistry(), layer);
  EXPECT_EQ(ordered.outputs[1].shape(), (Shape{1, 1, 6, 8}));
  for (const char* order : {"shuffle: true", "shuffle_buffer: 4"}) {
    LayerRunner runner(TestRegistry(), With(layer, order));
    EXPECT_EQ(runner.outputs[1].shape(), (Shape{1, 1, 8, 8}));
    int64_t most = 0;
    for (int batch = 0; batch < 200; ++batch) {
      runner.Forward();
      most = std::max(most, runner.shapes[1][2]);
    }
    EXPECT_EQ(most, 8);
  }
}

TEST_P(AnnotatedPipeline, PlainDatumsAreRefusedByName) {
  const std::string source = testing::WriteGraySet(temp_, 3, GetParam());
  for (const char* policy : {"", "on_bad_sample: SKIP"}) {
    const auto build = [&] { LayerRunner(TestRegistry(), With(Plain(source), policy)); };
    ExpectError(ErrorCode::kDataLoss, "record \"key0\" of", build);
    ExpectError(ErrorCode::kDataLoss, "a layer of type Data", build);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, AnnotatedPipeline,
                         ::testing::Values(DataParameter::LMDB, DataParameter::LEVELDB),
                         [](const auto& param) { return DataParameter::DB_Name(param.param); });

TEST(AnnotatedSets, LevelDbGivesTheBatchesOfLmdb) {
  const TempDir temp;
  if (!testing::CanWrite(DataParameter::LEVELDB, temp)) GTEST_SKIP() << "not in this build";
  const std::string lmdb = BoxesLayer(WriteNumbered(temp, DataParameter::LMDB, kBoxRecords));
  const std::string leveldb = BoxesLayer(WriteNumbered(temp, DataParameter::LEVELDB, kBoxRecords));
  for (const char* order : kSampleOrders) {
    EXPECT_EQ(Samples(With(leveldb, order), 12), Samples(With(lmdb, order), 12)) << order;
  }
}

// A truncated LMDB is an error before the next record is read.
TEST(AnnotatedSets, WhatIsInACacheIsNotReadAgain) {
  for (const char* order : kSampleOrders) {
    for (const char* cache : kCaches) {
      const TempDir temp;
      const std::string source = WriteNumbered(temp, DataParameter::LMDB, kBoxRecords);
      const std::vector<std::string> expected = Samples(With(BoxesLayer(source), order), 20);
      LayerRunner runner(TestRegistry(),
                         With(BoxesLayer(source), StrCat(order, " prefetch: 1 ", cache)));
      std::vector<std::string> samples = NextSamples(&runner, 10);
      std::filesystem::resize_file(source + "/data.mdb", 8192);  // its head
      const std::vector<std::string> rest = NextSamples(&runner, 10);
      samples.insert(samples.end(), rest.begin(), rest.end());
      EXPECT_EQ(samples, expected) << order << " " << cache;
      ExpectError(ErrorCode::kDataLoss, "is cut short", [&] { Samples(BoxesLayer(source), 1); });
    }
  }
}

TEST(AnnotatedSets, KindsWithoutBoxesAreRefused) {
  const TempDir temp;
  const std::string tar = testing::WriteRecords(temp, DataParameter::TAR, 2);
  ExpectError(ErrorCode::kInvalidArgument,
              "is tar shards, which hold images and labels but no boxes",
              [&] { LayerRunner(TestRegistry(), Plain(tar)); });
  const std::string hdf5 = temp.Write("set.h5", "\x89HDF\r\n\x1A\n and so on");
  const std::string list = temp.Write("list.txt", hdf5 + "\n");
  for (const std::string& source : {hdf5, list, temp.File("")}) {
    ExpectError(ErrorCode::kDataLoss, "HDF5Data",
                [&] { LayerRunner(TestRegistry(), Plain(source)); });
  }
}

// A cache with some of the records reads only the others again.
TEST(AnnotatedSets, AFullCacheChangesNothing) {
  const TempDir temp;
  std::vector<AnnotatedDatum> records;
  for (int n = 0; n < 6; ++n) {
    // 400 x 400 of three channels: two fit into a mebibyte.
    records.push_back(testing::Annotated(testing::Flat(400, 400, n), {{n, 0, 0, 1, 1}}));
  }
  const std::string layer = BoxesLayer(testing::WriteAnnotated(temp, "large", records),
                                       "resize_param { height: 6 width: 6 }");
  for (const char* order : kSampleOrders) {
    const std::vector<std::string> expected = Samples(With(layer, order), 8);
    LayerRunner runner(TestRegistry(), With(layer, StrCat(order, " cache: DECODED cache_mb: 1")));
    EXPECT_EQ(SamplesFrom(&runner, 0, 8), expected);
    const auto deferred_warnings =
        dynamic_cast<const HasDeferredWarnings&>(runner.state()).TakeWarnings();
    ASSERT_EQ(deferred_warnings.size(), 1u);
    EXPECT_NE(deferred_warnings[0].find("the cache is full with 2 entries"), std::string::npos)
        << deferred_warnings[0];
  }
}

}  // namespace
}  // namespace crema
#endif
