#include "layers/input/pipeline.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "core/machine_limits.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/expect_error.h"
#include "support/net.h"

namespace crema {
namespace {

using testing::ExpectError;

LayerParameter ParamOf(const std::string& text) {
  LayerParameter param;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &param)) << text;
  return param;
}

Pipeline PipelineOf(const std::string& text) {
  const LayerParameter param = ParamOf(text);
  return MakePipeline(param, PipelineFieldsOf(param.data_param()));
}

TEST(Pipeline, HasTheDefaultsOfTheSchema) {
  const Pipeline pipeline = PipelineOf("");
  EXPECT_EQ(pipeline.options.depth, 4u);
  EXPECT_EQ(pipeline.options.decode_threads, 0);
  EXPECT_EQ(pipeline.options.on_bad_sample, OnBadSample::kError);
  EXPECT_NE(pipeline.options.deferred_warnings, nullptr);
  EXPECT_FALSE(pipeline.shuffle);
  EXPECT_EQ(pipeline.cache, PipelineParameter::NONE);
  EXPECT_EQ(pipeline.cache_bytes, 0u);
}

// The default of the schema, 4, is NVCaffe's; docs/layers.md says that it does not count.
TEST(Pipeline, ThreadsOfImageDataCountOnlyIfTheyAreWritten) {
  const auto threads_of = [](const std::string& text) {
    const LayerParameter param = ParamOf(text);
    return MakePipeline(param, PipelineFieldsOf(param.image_data_param())).options.decode_threads;
  };
  EXPECT_EQ(ParamOf("").image_data_param().threads(), 4U);
  EXPECT_EQ(threads_of(""), 0);
  EXPECT_EQ(threads_of("image_data_param { threads: 0 }"), 0);
  EXPECT_EQ(threads_of("image_data_param { threads: 4 }"), 4);
}

TEST(Pipeline, OwnFieldsOfTheLayerCountUnlessTheCommonOnesSaySomething) {
  const std::string own = "data_param { threads: 5 prefetch: 6 shuffle: true cache: true } ";
  const Pipeline pipeline = PipelineOf(own);
  EXPECT_EQ(pipeline.options.decode_threads, 5);
  EXPECT_EQ(pipeline.options.depth, 6u);
  EXPECT_TRUE(pipeline.shuffle);
  EXPECT_EQ(pipeline.cache, PipelineParameter::ENCODED);
  const Pipeline common =
      PipelineOf(own +
                 "pipeline_param { threads: 0 prefetch: 2 shuffle: false cache: NONE "
                 "on_bad_sample: REPEAT max_bad: 7 shuffle_buffer: 9 }");
  EXPECT_EQ(common.options.decode_threads, 0);
  EXPECT_EQ(common.options.depth, 2u);
  EXPECT_TRUE(common.shuffle);  // either
  EXPECT_EQ(common.cache, PipelineParameter::NONE);
  EXPECT_EQ(common.options.on_bad_sample, OnBadSample::kRepeat);
  EXPECT_EQ(common.options.max_bad, 7u);
  EXPECT_EQ(common.shuffle_buffer, 9u);
}

TEST(Pipeline, CachesAreOfTheSizeThatIsAskedForOrHalfOfWhatIsFree) {
  const Pipeline pipeline = PipelineOf("pipeline_param { cache: DECODED cache_mb: 3 }");
  EXPECT_EQ(pipeline.cache_bytes, uint64_t{3} << 20);
  EXPECT_NE(MakeCaches(pipeline).decoded, nullptr);
  EXPECT_EQ(MakeCaches(pipeline).encoded, nullptr);
  const Pipeline half = PipelineOf("pipeline_param { cache: ENCODED }");
  EXPECT_GT(half.cache_bytes, 0u);
  EXPECT_LT(half.cache_bytes, static_cast<uint64_t>(AvailableMemory()));
  EXPECT_NE(MakeCaches(half).encoded, nullptr);
}

TEST(Pipeline, NumbersOutOfRangeAreRefusedByName) {
  const auto expect = [](const std::string& pipeline, const std::string& message) {
    const std::string error = test::PlanError(
        StrCat("layer { name: 'd' type: 'HDF5Data' top: 'data' hdf5_data_param { source: 'x' ",
               "batch_size: 1 } pipeline_param { ", pipeline, " } }"));
    EXPECT_NE(error.find(message), std::string::npos) << error;
  };
  expect("threads: 300", "pipeline_param.threads is 300, but must be 0 to 256");
  expect("prefetch: 5000", "pipeline_param.prefetch is 5000, but must be 1 to 4096");
  expect("cache_mb: 99999999999", "pipeline_param.cache_mb is 99999999999");
  expect("max_bad: 1", "max_bad has no effect while on_bad_sample is ERROR");
}

}  // namespace
}  // namespace crema
