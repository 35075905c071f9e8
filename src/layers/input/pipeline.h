// pipeline_param, shared by all data layers that read ahead of the net.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/tensor.h"
#include "crema.pb.h"
#include "data/pipeline/bounded_cache.h"
#include "data/pipeline/prefetcher.h"
#include "data/records/datum.h"
#include "graph/layer.h"

namespace crema {

// Fields of a layer's own message that mean the same as fields of pipeline_param.
struct OwnPipelineFields {
  std::string message;  // "data_param", for paths of fields
  uint32_t threads = 0;
  uint32_t prefetch = 4;
  bool shuffle = false;
  bool cache = false;  // of records or files, not decoded
};
OwnPipelineFields PipelineFieldsOf(const DataParameter& data);
OwnPipelineFields PipelineFieldsOf(const ImageDataParameter& data);
OwnPipelineFields PipelineFieldsOf(const HDF5DataParameter& data);
OwnPipelineFields PipelineFieldsOf(const WindowDataParameter& data);

// Reading options of a layer. `threads`, `prefetch` and `cache` are those of pipeline_param if it
// has them, else the layer's own; it shuffles if either requests it.
struct Pipeline {
  PrefetchOptions options;  // all but `outputs`; `deferred_warnings` is set, for the cache
  bool shuffle = false;
  uint32_t shuffle_buffer = 0;
  PipelineParameter::Cache cache = PipelineParameter::NONE;
  uint64_t cache_bytes = 0;  // 0 without a cache
};
// Reads the settings. Without cache_mb, depends on the memory available now. Requires
// CheckPipeline.
Pipeline MakePipeline(const LayerParameter& param, const OwnPipelineFields& own);

// Returns the caches of a layer: none, of files and records, or of images. One set per layer,
// shared by its reader and its decoders.
SampleCaches MakeCaches(const Pipeline& pipeline);

// Fails, naming the field, unless values are in range. For constructors of layers.
void CheckPipeline(const Layer& layer, const OwnPipelineFields& own);

// Returns true with pipeline_param { output: U8 }: the images are bytes, batch x H x W x C.
inline bool GivesBytes(const LayerParameter& param) {
  return param.pipeline_param().output() == PipelineParameter::U8;
}
// Fails, naming the field, for steps that exclude bytes. For constructors of layers that can output
// bytes.
void CheckByteOutput(const Layer& layer);
// Fails, naming the field, if bytes are requested. `why` is the reason why the layer cannot output
// them.
void RefuseByteOutput(const Layer& layer, const std::string& why);
// Fails, naming the field, if bytes are requested and the first image holds floats.
void CheckFirstImage(const Layer& layer, const PixelView& image);
// For output_docs: the text after "batch x C x H x W".
inline constexpr const char* kBytesDoc =
    "; with pipeline_param { output: U8 } bytes, batch x H x W x C, for a PixelsToFloat layer";

}  // namespace crema
