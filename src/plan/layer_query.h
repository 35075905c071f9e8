// The question to an implementation about a layer that is planned.
#pragma once

#include <algorithm>
#include <vector>

#include "plan/plan.h"
#include "plan/precision.h"

namespace crema {

// The question to Infer about a layer of a plan with these options. `inputs` must outlive it.
InferContext ContextOf(const Layer& layer, std::span<const BlobSpec> inputs, size_t output_count,
                       const PlanOptions& options);

// The question to an implementation about a layer of a plan with these options: nothing is
// fused or handed on, and there is no backward pass. The arguments must outlive it.
OpDesc QueryOf(const Layer& layer, const InferContext& context, const LayerInfo& info,
               const PlanOptions& options);

// The same about a planned layer, with what it fuses and hands on. `output_stride` is
// OpDesc::output_stride.
OpDesc QueryOf(const PlannedLayer& layer, const InferContext& context, const LayerInfo& info,
               int64_t output_stride, const PlanOptions& options);

// body(query), as the plan stands; `output_stride` is OpDesc::output_stride.
template <typename Body>
auto WithQuery(const Plan& plan, const PlannedLayer& layer, int64_t output_stride, Body&& body) {
  std::vector<BlobSpec> inputs;
  for (int v : layer.inputs) inputs.push_back(plan.values[static_cast<size_t>(v)].spec);
  inputs.resize(layer.OwnInputs());
  const InferContext context = ContextOf(*layer.layer, inputs, layer.OwnOutputs(), plan.options);
  return body(QueryOf(layer, context, layer.info, output_stride, plan.options));
}

// What the implementation of the layer says of `query`, which is about the layer, and needs for it.
inline void BookNeeds(const OpDesc& query, PlannedLayer* layer) {
  layer->info = layer->implementation->Info(query);
  const Needs needs = layer->implementation->NeedsOf(query);
  layer->forward_scratch = static_cast<int64_t>(needs.forward_scratch);
  layer->backward_scratch = static_cast<int64_t>(needs.backward_scratch);
  layer->state_bytes = static_cast<int64_t>(needs.state_bytes);
}

// The same with what the layer fuses and hands on by now.
inline void UpdateRequirements(const Plan& plan, PlannedLayer* layer) {
  WithQuery(plan, *layer, 0, [&](const OpDesc& query) {
    BookNeeds(query, layer);
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
