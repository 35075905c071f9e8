// Layers that run forward again in the backward pass instead of keeping their outputs.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace crema {

// Steps of one iteration. Layer i runs forward at step i. Backward goes from the last layer to the
// first. Before the backward of each layer, the layers run again whose outputs or saved blobs it
// reads and that did not keep them. Thread safety: const.
class Timeline {
 public:
  // Reads the layers of the plan, their gradient flags and `recompute`.
  explicit Timeline(const Plan& plan);

  int end() const { return end_; }  // one after the last step
  int Backward(int layer) const { return backward_[static_cast<size_t>(layer)]; }
  // Returns the step at which a layer runs forward again. -1 means never.
  int Again(int layer) const { return again_[static_cast<size_t>(layer)]; }
  // Returns the step at which the backward pass recomputes this value. -1 means it reads the first
  // one.
  int MadeAgain(int value) const;
  // Returns the layers that run again just before the backward of this one, in order.
  const std::vector<int>& Before(int layer) const { return before_[static_cast<size_t>(layer)]; }

 private:
  void Schedule(int layer);
  // Adds the layers that must run again for the backward of `layer` to its list.
  void CollectFor(int layer);
  void Need(int value);

  const Plan& plan_;
  int end_ = 0;
  std::vector<int> backward_;             // by layer
  std::vector<int> again_;                // by layer
  std::vector<int> made_by_;              // by value: the layer that computes it, through views
  std::vector<std::vector<int>> before_;  // by layer
  std::vector<int> needed_;               // values whose layers are still to be found
  std::vector<bool> collected_;           // by layer
};

// Returns the reason why this layer cannot run forward again with the same result, empty if it can.
// Asks the layer for its state.
std::string WhyNotAgain(const Plan& plan, const PlannedLayer& layer);

// Sets `recompute` of the layers that request it in the net, if the plan has a backward pass and is
// optimised. Throws kInvalidArgument, with all problems, for layers that cannot run again.
void MarkRecompute(const Graph& graph, Plan* plan);

}  // namespace crema
