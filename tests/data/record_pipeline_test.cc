// Data, for each format: batches do not depend on workers, caches, or on the place where a run was
// resumed, in any order, with and without bad records.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/layer_runner.h"
#include "data/record_sets.h"
#include "data/same_batches.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using test::TestRegistry;
using testing::ExpectSameBatches;
using testing::GrayDatum;
using testing::kSampleOrders;
using testing::LayerRunner;
using testing::Resume;

// Records of 5 x 6; bad ones are smaller.
std::string Write(const TempDir& temp, DataParameter::DB backend, int records,
                  const std::vector<int>& bad = {}) {
  const std::string path = temp.File(DataParameter::DB_Name(backend));
  const auto writer = CreateRecords(path, backend);
  for (int n = 0; n < records; ++n) {
    const bool is_bad = std::ranges::find(bad, n) != bad.end();
    writer->Put(testing::NumberedKey(n), GrayDatum(is_bad ? 3 : 5, 6, n).SerializeAsString());
  }
  writer->Close();
  return path;
}

std::string DigitsLayer(const std::string& source) {
  return StrCat("name: 'digits' type: 'Data' top: 'data' top: 'label' data_param { source: '",
                source, "' batch_size: 3 } transform_param { crop_size: 4 mirror: true }");
}

class RecordPipeline : public ::testing::TestWithParam<DataParameter::DB> {
 protected:
  void SetUp() override {
    if (!testing::CanWrite(GetParam(), temp_)) GTEST_SKIP() << "not in this build";
#ifndef CREMA_HAVE_OPENCV
    if (GetParam() == DataParameter::TAR) GTEST_SKIP() << "image files need OpenCV";
#endif
  }

  const TempDir temp_;
};

TEST_P(RecordPipeline, BatchesAreTheSameForAnyWorkersAndFromAnySample) {
  const std::string layer = DigitsLayer(Write(temp_, GetParam(), 11));
  for (const char* order : kSampleOrders) ExpectSameBatches(TestRegistry(), layer, order);
}

TEST_P(RecordPipeline, CachesChangeNothing) {
  const std::string layer = DigitsLayer(Write(temp_, GetParam(), 11));
  for (const char* order : kSampleOrders) {
    LayerRunner plain(TestRegistry(), StrCat(layer, " pipeline_param { ", order, " }"));
    const std::vector<std::string> expected = testing::SamplesFrom(&plain, 0, 12);
    for (const char* cache : {"cache: ENCODED cache_mb: 1", "cache: DECODED cache_mb: 1"}) {
      const std::string pipeline = StrCat(order, " ", cache);
      LayerRunner cached(TestRegistry(), StrCat(layer, " pipeline_param { ", pipeline, " }"));
      EXPECT_EQ(testing::SamplesFrom(&cached, 0, 12), expected) << pipeline;
      ExpectSameBatches(TestRegistry(), layer, pipeline);
    }
  }
}

TEST_P(RecordPipeline, BadRecordsAreReplacedTheSameWay) {
  // Two bad ones leave a good one in each batch of three.
  const std::string layer = DigitsLayer(Write(temp_, GetParam(), 11, {2, 6}));
  for (const char* order : kSampleOrders) {
    for (const char* policy : {"on_bad_sample: SKIP", "on_bad_sample: REPEAT prefetch: 1"}) {
      for (const char* cache : {"", "cache: DECODED cache_mb: 1"}) {
        ExpectSameBatches(TestRegistry(), layer, StrCat(order, " ", policy, " ", cache), 12,
                          Resume::kBetweenBatches);
      }
    }
  }
}

// All other samples are the same as without bad ones.
TEST_P(RecordPipeline, GoodRecordsKeepTheirPlacesBesideBadOnes) {
  const TempDir folder;
  LayerRunner whole(TestRegistry(), DigitsLayer(Write(folder, GetParam(), 11)));
  const std::vector<std::string> expected = testing::SamplesFrom(&whole, 0, 11);
  LayerRunner runner(TestRegistry(), DigitsLayer(Write(temp_, GetParam(), 11, {2, 6})) +
                                         " pipeline_param { on_bad_sample: SKIP }");
  const std::vector<std::string> samples = testing::SamplesFrom(&runner, 0, 11);
  for (size_t i = 0; i < samples.size(); ++i) {
    const size_t record = i % 11;
    const bool bad = record == 2 || record == 6;
    // After a bad one, or, after the last of a batch, at its start.
    const size_t taker = i % 3 == 2 ? i - 2 : i + 1;
    EXPECT_EQ(samples[i], expected[bad ? taker : i]) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, RecordPipeline,
                         ::testing::Values(DataParameter::LMDB, DataParameter::LEVELDB,
                                           DataParameter::TAR),
                         [](const auto& param) { return DataParameter::DB_Name(param.param); });

}  // namespace
}  // namespace crema
