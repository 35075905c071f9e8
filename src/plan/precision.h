// Precision that the layers of a net may compute in.
#pragma once

#include <map>
#include <string>

#include "crema.pb.h"
#include "graph/graph.h"
#include "graph/implementation.h"
#include "plan/plan.h"

namespace crema {

// Returns the precision of the layer, else that of the options.
Precision PrecisionOf(const Layer& layer, const PlanOptions& options);

// Returns yes if implementations may store inputs and outputs of this layer as blocked
// bfloat16: its precision allows it and the processor supports it.
Support StoresBFloat16(const OpDesc& query);

// Returns yes if implementations may compute this layer on bytes: forward passes only, and the
// layer has ranges for its first `bottoms` inputs and `tops` outputs.
Support ComputesInt8(const OpDesc& query, size_t bottoms, size_t tops);

// Returns the range of a value that its producer declares, looked up through Splits. Null means
// none.
const Int8Range* Int8RangeOf(const Graph& graph, int value);

// Throws kInvalidArgument with every layer, or the net, that requests a precision its device lacks.
// TF32 on the CPU runs as FP32 and appends a warning.
void CheckPrecisions(const Graph& graph, const NetParameter& net, const PlanOptions& options,
                     std::vector<Problem>* warnings);

// Returns true if a layer of the plan computes in bfloat16 on the CPU.
bool UsesBFloat16(const Plan& plan);

// Appends a warning, with a reason, if precision BF16 is requested and no layer of the plan
// computes in it on the CPU.
void WarnOfUnusedBFloat16(const Graph& graph, const NetParameter& net, const Plan& plan,
                          std::vector<Problem>* warnings);

// Gives a ReLU without a precision that of the convolution or product before it, which can then
// fuse it. Does not change `pinned` layers (PlanOptions), nor what is written.
void InheritPrecisions(const std::map<std::string, std::string>& pinned, Graph* graph);

}  // namespace crema
