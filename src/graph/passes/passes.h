// Rewrites of the graph. Each is one file and does not change what the net computes.
#pragma once

#include "graph/graph.h"
#include "graph/infer.h"

namespace crema {

// Makes fan-out explicit: a value with several readers gets a Split node, named as Caffe names it
// (`<blob>_<layer>_<top>_split`), so that afterwards every value has at most one reader. A loss
// weight counts as a reader. Backward requires this pass, so it cannot be disabled; the type
// "Split" must be in the registry.
void InsertSplits(Graph* graph, const Registry& registry);

// If all consumers of a value are 1x1 convolutions with the same stride, the elements between those
// that they read are not needed. The producing convolutions take over the stride, through layers
// that work on each position separately (activations, sums, BatchNorm with stored statistics), and
// other inputs of these are subsampled by a 1x1 Pooling, `<blob>_for_<layer>`. Requires a graph
// without a backward pass, which would have to spread gradients. Throws the errors of InferShapes:
// an invalid net may become valid by this pass.
void MoveStrides(Graph* graph, const Registry& registry, const InferOptions& options = {});

}  // namespace crema
