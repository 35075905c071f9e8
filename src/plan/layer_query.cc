#include "plan/layer_query.h"

#include "crema.pb.h"

namespace crema {

InferContext ContextOf(const Layer& layer, std::span<const BlobSpec> inputs, size_t output_count,
                       const PlanOptions& options) {
  return {.phase = layer.param().phase(),
          .inputs = inputs,
          .output_count = output_count,
          .dtype = options.dtype,
          .rank = options.rank,
          .world = options.world};
}

OpDesc QueryOf(const Layer& layer, const InferContext& context, const LayerInfo& info,
               const PlanOptions& options) {
  return {.layer = layer,
          .context = context,
          .info = info,
          .threads = options.threads,
          .deterministic = options.deterministic,
          .precision = PrecisionOf(layer, options),
          .gpu = options.device.ordinal,
          .processor = options.processor};
}

OpDesc QueryOf(const PlannedLayer& layer, const InferContext& context, const LayerInfo& info,
               int64_t output_stride, const PlanOptions& options) {
  OpDesc query = QueryOf(*layer.layer, context, info, options);
  query.backward = layer.backward;
  query.to_input = WantsInputGradient(layer);
  query.fused = layer.fusion.layers;
  query.output_stride = output_stride;
  return query;
}

}  // namespace crema
