// pipeline_param, which all data layers that read ahead of the net share.
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

// The fields of a layer's own message that mean the same as some of pipeline_param.
struct OwnPipelineFields {
  std::string message;  // "data_param", for paths of fields
  uint32_t threads = 0;
  uint32_t prefetch = 4;
  bool shuffle = false;
  bool cache = false;  // records or files as they are
};
OwnPipelineFields PipelineFieldsOf(const DataParameter& data);
OwnPipelineFields PipelineFieldsOf(const ImageDataParameter& data);
OwnPipelineFields PipelineFieldsOf(const HDF5DataParameter& data);
OwnPipelineFields PipelineFieldsOf(const WindowDataParameter& data);

// How a layer reads. `threads`, `prefetch` and `cache` are those of pipeline_param where it has
// them, else the layer's own; it shuffles when one of the two says so.
struct Pipeline {
  PrefetchOptions
      options;  // all but `outputs`; `deferred_warnings` is there, for the cache to tell
  bool shuffle = false;
  uint32_t shuffle_buffer = 0;
  PipelineParameter::Cache cache = PipelineParameter::NONE;
  uint64_t cache_bytes = 0;  // 0 where nothing is cached
};
// Looks at the memory that is free now, where cache_mb leaves it to that. Requires: CheckPipeline.
Pipeline MakePipeline(const LayerParameter& param, const OwnPipelineFields& own);

// What it keeps in memory: none, files and records, or images. One set for a layer, shared by what
// reads and what decodes.
SampleCaches MakeCaches(const Pipeline& pipeline);

// Fails, naming the field, unless numbers are in range. For constructors of layers.
void CheckPipeline(const Layer& layer, const OwnPipelineFields& own);

// pipeline_param { output: U8 }: the images are bytes, batch x H x W x C.
inline bool GivesBytes(const LayerParameter& param) {
  return param.pipeline_param().output() == PipelineParameter::U8;
}
// Fails, naming the field, for steps that bytes exclude. For constructors of layers that can give
// bytes.
void CheckByteOutput(const Layer& layer);
// Fails, naming the field, where bytes are asked for; `why` says why the layer cannot give them.
void RefuseByteOutput(const Layer& layer, const std::string& why);
// Fails, naming the field, where bytes are asked for and the first image holds floats.
void CheckFirstImage(const Layer& layer, const PixelView& image);
// For output_docs: what follows "batch x C x H x W".
inline constexpr const char* kBytesDoc =
    "; with pipeline_param { output: U8 } bytes, batch x H x W x C, for a PixelsToFloat layer";

}  // namespace crema
