// mixup and cutmix of augment_param, in the layers that can.
#pragma once

#include <cstdint>
#include <vector>

#include "core/shape.h"
#include "data/batches/sample_writer.h"
#include "data/pipeline/prefetcher.h"
#include "graph/layer.h"

namespace crema {

// Whether the text asks for one of them. It is done in TRAIN only.
bool Mixes(const LayerParameter& param);

// Fails, naming the field, where batches cannot be mixed. For constructors.
void CheckMixing(const Layer& layer, uint32_t batch_size);
// The same for layers that never mix.
void RefuseMixing(const Layer& layer);

// The shape of the labels, one for each sample: batch, or batch x classes where they are mixed,
// which is in TRAIN only. Fails, naming the field, where there is no top for them then.
Shape LabelShape(const Layer& layer, const InferContext& context, int64_t batch);

// LayerInfo::external_output: batches lie where they were decoded, but for those that are mixed.
std::vector<bool> ExternalUnlessMixed(const Layer& layer, const InferContext& context);

// What mixing needs of reading: labels as probabilities, and a step that copies batches. Does
// nothing where batches are not mixed.
void AddMixing(const LayerParameter& param, Phase phase, SampleWriter::Options* writer,
               PrefetchOptions* reader);

}  // namespace crema
