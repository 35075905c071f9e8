// Queries about layers of a plan, for Infer and for implementations.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "plan/precision.h"

namespace crema {

// Returns the context for Infer of a layer in a plan with these options. `inputs` must outlive it.
InferContext ContextOf(const Layer& layer, std::span<const BlobSpec> inputs, size_t output_count,
                       const PlanOptions& options);

// Returns the query about a layer in a plan with these options, without fused layers or a
// backward pass. The arguments must outlive it.
OpDesc QueryOf(const Layer& layer, const InferContext& context, const LayerInfo& info,
               const PlanOptions& options);

// Returns the query about a planned layer, with its fused layers. `output_stride` is
// OpDesc::output_stride.
OpDesc QueryOf(const PlannedLayer& layer, const InferContext& context, const LayerInfo& info,
               int64_t output_stride, const PlanOptions& options);

// Calls body(query) for the current state of the plan. `output_stride` is OpDesc::output_stride.
template <typename Body>
auto WithQuery(const Plan& plan, const PlannedLayer& layer, int64_t output_stride, Body&& body) {
  std::vector<BlobSpec> inputs;
  for (int v : layer.inputs) inputs.push_back(plan.values[static_cast<size_t>(v)].spec);
  inputs.resize(layer.OwnInputs());
  const InferContext context = ContextOf(*layer.layer, inputs, layer.outputs.size(), plan.options);
  return body(QueryOf(layer, context, layer.info, output_stride, plan.options));
}

// Stores the info and the needs that the implementation of the layer reports for `query`, a query
// about this layer.
inline void BookNeeds(const OpDesc& query, PlannedLayer* layer) {
  layer->info = layer->implementation->Info(query);
  layer->needs = layer->implementation->NeedsOf(query);
}

// Updates these for the current fused layers of the layer.
inline void UpdateRequirements(const Plan& plan, PlannedLayer* layer) {
  WithQuery(plan, *layer, 0, [&](const OpDesc& query) {
    BookNeeds(query, layer);
    return 0;
  });
}

}  // namespace crema
