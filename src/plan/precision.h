// What number formats the layers of a net may compute in.
#pragma once

#include "crema.pb.h"
#include "graph/graph.h"
#include "graph/implementation.h"
#include "plan/plan.h"

namespace crema {

// That of the layer, else that of the options.
Precision PrecisionOf(const Layer& layer, const PlanOptions& options);

// Whether implementations may store what they read and write as bfloat16 for this layer
// (kBlockedBF16): it may compute so, and the processor can.
Support StoresBFloat16(const OpDesc& query);

// Whether implementations may compute on bytes (kInt8) for this layer: forward passes alone, and
// the layer has ranges of its first blobs, `bottoms` and `tops` of them.
Support ComputesInt8(const OpDesc& query, size_t bottoms, size_t tops);

// The range of a value as the layer says that makes it, through Splits. Null: it says none.
const Int8Range* Int8RangeOf(const Graph& graph, int value);

// Throws kInvalidArgument with every layer, or the net, that asks for one that its device has not.
// TF32 on the CPU is a warning, which is appended: it is FP32 there.
void CheckPrecisions(const Graph& graph, const NetParameter& net, const PlanOptions& options,
                     std::vector<Problem>* warnings);

}  // namespace crema
