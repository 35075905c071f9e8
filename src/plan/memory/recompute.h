// Which layers run forward again in the backward pass instead of keeping what they made.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace crema {

// The passes of one iteration in order: layer i runs forward at step i, then backward goes from the
// last layer to the first, and before each layer run those again whose outputs or saved blobs it
// reads and that did not keep them. Thread safety: const.
class Timeline {
 public:
  // Reads the layers of the plan, their flags of gradients and `recompute`.
  explicit Timeline(const Plan& plan);

  int end() const { return end_; }  // one behind the last step
  int Backward(int layer) const { return backward_[static_cast<size_t>(layer)]; }
  // When a layer runs forward again; -1: it does not.
  int Again(int layer) const { return again_[static_cast<size_t>(layer)]; }
  // When the backward pass has this value made again; -1: it reads the first one.
  int MadeAgain(int value) const;
  // The layers that run again just before the backward of this one, in their order.
  const std::vector<int>& Before(int layer) const { return before_[static_cast<size_t>(layer)]; }

 private:
  void Schedule(int layer);
  // Puts the layers that must run again for the backward of `layer` into its list.
  void CollectFor(int layer);
  void Need(int value);

  const Plan& plan_;
  int end_ = 0;
  std::vector<int> backward_;             // by layer
  std::vector<int> again_;                // by layer
  std::vector<int> made_by_;              // by value: the layer that runs to make it, behind views
  std::vector<std::vector<int>> before_;  // by layer
  std::vector<int> needed_;               // values, while they are followed to their layers
  std::vector<bool> collected_;           // by layer
};

// Why this layer cannot run forward a second time with the same outcome; empty when it can. Asks
// the layer for its state.
std::string WhyNotAgain(const Plan& plan, const PlannedLayer& layer);

// Sets `recompute` of the layers whose text asks for it, where the plan has a backward pass and is
// optimised. Throws kInvalidArgument, with all problems, for layers that cannot run again.
void MarkRecompute(const Graph& graph, Plan* plan);

}  // namespace crema
