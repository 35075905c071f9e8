#include "layers/input/pipeline.h"

#include <memory>

#include "core/machine_limits.h"
#include "core/strings.h"
#include "crema.pb.h"
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

[[noreturn]] void FailStep(const Layer& layer, const std::string& step, const std::string& what) {
  FailField(layer, "transform_param." + step,
            StrCat(step, " cannot be together with pipeline_param { output: U8 }, ", what));
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
                                .deferred_warnings = std::make_shared<DeferredWarnings>()},
                    .shuffle = common.shuffle() || own.shuffle,
                    .shuffle_buffer = common.shuffle_buffer(),
                    .cache = CacheOf(common, own)};
  if (pipeline.cache != PipelineParameter::NONE) pipeline.cache_bytes = CacheBytes(common);
  return pipeline;
}

SampleCaches MakeCaches(const Pipeline& pipeline) {
  SampleCaches caches;
  if (pipeline.cache == PipelineParameter::ENCODED) {
    caches.encoded =
        std::make_shared<FileCache>(pipeline.cache_bytes, pipeline.options.deferred_warnings);
  }
  if (pipeline.cache == PipelineParameter::DECODED) {
    caches.decoded =
        std::make_shared<ImageCache>(pipeline.cache_bytes, pipeline.options.deferred_warnings);
  }
  return caches;
}

void CheckByteOutput(const Layer& layer) {
  if (!GivesBytes(layer.param())) return;
  constexpr const char* kMove =
      "which leaves pixels as they are: move it to the transform_param of a PixelsToFloat layer";
  constexpr const char* kFills =
      "since it fills with the mean, which only a PixelsToFloat layer has: set FLOAT";
  constexpr const char* kMixes = "since it mixes floating-point values: set FLOAT";
  const TransformationParameter& transform = layer.param().transform_param();
  if (transform.mean_value_size() > 0) FailStep(layer, "mean_value", kMove);
  if (transform.has_mean_file()) FailStep(layer, "mean_file", kMove);
  if (transform.scale() != 1) FailStep(layer, "scale", kMove);
  if (transform.has_expand_param()) FailStep(layer, "expand_param", kFills);
  const AugmentParameter& augment = transform.augment_param();
  if (augment.has_erase()) FailStep(layer, "augment_param.erase", kFills);
  if (augment.rotate() != 0) FailStep(layer, "augment_param.rotate", kFills);
  if (augment.min_scale() < 1) FailStep(layer, "augment_param.min_scale", kFills);
  if (augment.aspect() != 1) FailStep(layer, "augment_param.aspect", kFills);
  if (augment.mixup() > 0) FailStep(layer, "augment_param.mixup", kMixes);
  if (augment.cutmix() > 0) FailStep(layer, "augment_param.cutmix", kMixes);
}

void RefuseByteOutput(const Layer& layer, const std::string& why) {
  if (!GivesBytes(layer.param())) return;
  FailField(layer, "pipeline_param.output",
            StrCat("pipeline_param.output is U8, which ", layer.param().type(),
                   " cannot give: ", why, "; remove it"));
}

void CheckFirstImage(const Layer& layer, const PixelView& image) {
  if (!GivesBytes(layer.param()) || image.bytes != nullptr) return;
  FailField(layer, "pipeline_param.output",
            "pipeline_param.output is U8, but the first record holds floats, not bytes: set FLOAT");
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
