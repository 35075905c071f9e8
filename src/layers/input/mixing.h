// mixup and cutmix of augment_param, for the layers that support them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/shape.h"
#include "data/batches/batch_filler.h"
#include "data/pipeline/prefetcher.h"
#include "graph/layer.h"

namespace crema {

// Returns true if the parameters request one of them. Batches are mixed in TRAIN only.
bool Mixes(const LayerParameter& param);

// Fails, naming the field, if batches cannot be mixed. For constructors.
void CheckMixing(const Layer& layer, uint32_t batch_size);
// Does the same for layers that never mix.
void RefuseMixing(const Layer& layer);

// Returns the shape of the labels: batch, or batch x classes if they are mixed, which is in TRAIN
// only. Fails, naming the field, if they are mixed and there is no top for them.
Shape LabelShape(const Layer& layer, const InferContext& context, int64_t batch);

// Returns LayerInfo::external_output: batches stay in the buffers of the reader unless they are
// mixed.
std::vector<bool> ExternalUnlessMixed(const Layer& layer, const InferContext& context);

// Adds to the options of reading what mixing needs: labels as probabilities, and a copy step that
// mixes. Does nothing if batches are not mixed.
void AddMixing(const LayerParameter& param, Phase phase, BatchFiller::Options* filler,
               PrefetchOptions* reader);

}  // namespace crema
