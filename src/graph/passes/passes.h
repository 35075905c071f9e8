// Rewrites of the graph. Each is one file and leaves what the net computes as it was.
#pragma once

#include "graph/graph.h"
#include "graph/infer.h"

namespace crema {

// Makes fan-out visible: a value with several readers gets a Split node, named as Caffe names it
// (`<blob>_<layer>_<top>_split`), so that afterwards every value has one reader at most. A value
// with a loss weight of its own counts that as a use. Needed by backward, so it cannot be switched
// off; requires the type "Split" in the registry.
void InsertSplits(Graph* graph, const Registry& registry);

// Where all that read a value are convolutions of one pixel with the same stride, nothing between
// the places that they read is needed: the convolutions that make the value take the stride over,
// through layers that work place by place (activations, sums, BatchNorm with its statistics), and
// what else goes into these is picked from by a Pooling of one place, `<blob>_for_<layer>`. For
// graphs without a backward pass, which would have to spread gradients. Throws what InferShapes
// throws: what does not fit as it is written may fit afterwards.
void MoveStrides(Graph* graph, const Registry& registry, const InferOptions& options = {});

}  // namespace crema
