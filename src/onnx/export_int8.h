// Precisions of weights and blobs: float16 weights, and the rounding of int8 layers.
#pragma once

#include "crema.pb.h"
#include "onnx/export.h"
#include "onnx/export_layer.h"
#include "plan/plan.h"

namespace crema {

// For a layer that computes in INT8 and has ranges: rounds its bottoms by QuantizeLinear and
// DequantizeLinear, and its weights to 8 bits for each output channel.
void QuantizeInt8(const NetParameter& net, const PlanOptions& options, LayerExport* e);

// Stores matrices and filters as float16, each with a Cast to float. Throws kInvalidArgument,
// naming it, for a weight that float16 cannot hold.
void HalveWeights(OnnxExport* exported);

}  // namespace crema
