#include "layers/input/pipeline.h"

#include <memory>

#include "core/machine_limits.h"
#include "core/strings.h"
#include "layers/input/prefetched.h"

namespace crema {
namespace {

constexpr uint64_t kMebibyte = 1 << 20;
constexpr uint64_t kMostMebibytes = uint64_t{1} << 32;

OnBadSample OnBad(PipelineParameter::BadSample field) {
  switch (field) {
    case PipelineParameter::SKIP:
      return OnBadSample::kSkip;
    case PipelineParameter::REPEAT:
      return OnBadSample::kRepeat;
    default:
      return OnBadSample::kError;
  }
}

PipelineParameter::Cache CacheOf(const PipelineParameter& param, const OwnPipelineFields& own) {
  if (param.has_cache()) return param.cache();
  return own.cache ? PipelineParameter::ENCODED : PipelineParameter::NONE;
}

uint64_t CacheBytes(const PipelineParameter& param) {
  if (param.cache_mb() > 0) return param.cache_mb() * kMebibyte;
  return static_cast<uint64_t>(AvailableMemory()) / 2;
}

}  // namespace

OwnPipelineFields PipelineFieldsOf(const DataParameter& data) {
  return {.message = "data_param",
          .threads = data.threads(),
          .prefetch = data.prefetch(),
          .shuffle = data.shuffle(),
          .cache = data.cache()};
}

OwnPipelineFields PipelineFieldsOf(const ImageDataParameter& data) {
  return {.message = "image_data_param",
          .threads = data.has_threads() ? data.threads() : 0,
          .shuffle = data.shuffle(),
          .cache = data.cache()};
}

OwnPipelineFields PipelineFieldsOf(const HDF5DataParameter& data) {
  return {.message = "hdf5_data_param", .shuffle = data.shuffle()};
}

OwnPipelineFields PipelineFieldsOf(const WindowDataParameter& data) {
  return {.message = "window_data_param", .cache = data.cache_images()};
}

Pipeline MakePipeline(const LayerParameter& param, const OwnPipelineFields& own) {
  const PipelineParameter& common = param.pipeline_param();
  Pipeline pipeline{.options = {.outputs = {},
                                .depth = common.has_prefetch() ? common.prefetch() : own.prefetch,
                                .decode_threads = static_cast<int>(
                                    common.has_threads() ? common.threads() : own.threads),
                                .on_bad_sample = OnBad(common.on_bad_sample()),
                                .max_bad = common.max_bad(),
                                .notices = std::make_shared<Notices>()},
                    .shuffle = common.shuffle() || own.shuffle,
                    .shuffle_buffer = common.shuffle_buffer(),
                    .cache = CacheOf(common, own)};
  if (pipeline.cache != PipelineParameter::NONE) pipeline.cache_bytes = CacheBytes(common);
  return pipeline;
}

SampleCaches MakeCaches(const Pipeline& pipeline) {
  SampleCaches caches;
  if (pipeline.cache == PipelineParameter::ENCODED) {
    caches.encoded = std::make_shared<FileCache>(pipeline.cache_bytes, pipeline.options.notices);
  }
  if (pipeline.cache == PipelineParameter::DECODED) {
    caches.decoded = std::make_shared<ImageCache>(pipeline.cache_bytes, pipeline.options.notices);
  }
  return caches;
}

void CheckPipeline(const Layer& layer, const OwnPipelineFields& own) {
  const PipelineParameter& common = layer.param().pipeline_param();
  CheckThreads(layer, StrCat(own.message, ".threads"), own.threads);
  CheckPrefetch(layer, StrCat(own.message, ".prefetch"), own.prefetch);
  CheckThreads(layer, "pipeline_param.threads", common.threads());
  CheckPrefetch(layer, "pipeline_param.prefetch", common.prefetch());
  if (common.cache_mb() > kMostMebibytes) {
    FailField(layer, "pipeline_param.cache_mb",
              StrCat("pipeline_param.cache_mb is ", common.cache_mb(), ", but must be 0 to ",
                     kMostMebibytes));
  }
  if (common.max_bad() > 0 && common.on_bad_sample() == PipelineParameter::ERROR) {
    FailField(layer, "pipeline_param.max_bad",
              "pipeline_param.max_bad has no effect while on_bad_sample is ERROR: set SKIP or "
              "REPEAT, or remove it");
  }
}

}  // namespace crema
