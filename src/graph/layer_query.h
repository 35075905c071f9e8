// The question to a kernel row about a layer that is planned.
#pragma once

#include <algorithm>
#include <vector>

#include "graph/plan.h"
#include "graph/precision.h"

namespace crema {

// The question to Infer about a layer of a plan with these options. `inputs` must outlive it.
InferContext ContextOf(const Layer& layer, std::span<const BlobSpec> inputs, size_t output_count,
                       const PlanOptions& options);

// The question to an implementation about a layer of a plan with these options: nothing is
// absorbed or handed on, and there is no backward pass. The arguments must outlive it.
KernelQuery QueryOf(const Layer& layer, const InferContext& context, const LayerInfo& info,
                    const PlanOptions& options);

// The same about a planned layer, with what it absorbs and hands on. `output_stride` is
// KernelQuery::output_stride.
KernelQuery QueryOf(const PlannedLayer& layer, const InferContext& context, const LayerInfo& info,
                    int64_t output_stride, const PlanOptions& options);

// body(query), as the plan stands; `output_stride` is KernelQuery::output_stride.
template <typename Body>
auto WithQuery(const Plan& plan, const PlannedLayer& layer, int64_t output_stride, Body&& body) {
  std::vector<BlobSpec> inputs;
  for (int v : layer.inputs) inputs.push_back(plan.values[static_cast<size_t>(v)].spec);
  inputs.resize(layer.OwnInputs());
  const InferContext context = ContextOf(*layer.layer, inputs, layer.OwnOutputs(), plan.options);
  return body(QueryOf(layer, context, layer.info, output_stride, plan.options));
}

// What its row says of the layer and needs for it, with what the layer absorbs and hands on by now.
inline void BookAgain(const Plan& plan, PlannedLayer* layer) {
  WithQuery(plan, *layer, 0, [&](const KernelQuery& query) {
    if (layer->kernel->info) layer->info = layer->kernel->info(query);
    if (layer->backward) {
      layer->backward_scratch = static_cast<int64_t>(BackwardScratchOf(layer->kernel, query));
    }
    layer->forward_scratch = static_cast<int64_t>(ForwardScratchOf(layer->kernel, query));
    if (layer->kernel->state_bytes) {
      layer->state_bytes = static_cast<int64_t>(layer->kernel->state_bytes(query));
    }
    return 0;
  });
}

// Scratch and state of the whole plan, from those of its layers.
inline void BookTotals(Plan* plan) {
  plan->scratch_bytes = 0;
  plan->state_bytes = 0;
  for (const PlannedLayer& layer : plan->layers) {
    plan->scratch_bytes =
        std::max({plan->scratch_bytes, layer.forward_scratch, layer.backward_scratch});
    plan->state_bytes += layer.state_bytes;
  }
}

}  // namespace crema
