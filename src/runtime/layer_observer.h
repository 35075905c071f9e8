// Hears of every layer that a session runs, to time it or to look at what it made.
#pragma once

#include <cstddef>

#include "graph/layer.h"

namespace crema {

// `layer` is an index into the plan. The arguments are those of the layer: blobs may share memory
// with later ones, so values are to be looked at during the call. Layers that do not run (views,
// splits) are not heard of. What is thrown ends the pass as if the layer had thrown it; when a
// layer throws, its After... is not called.
// Thread safety: called on the thread of the session.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual void BeforeForward(size_t /*layer*/, const ForwardArgs&) {}
  virtual void AfterForward(size_t /*layer*/, const ForwardArgs&) {}
  virtual void BeforeBackward(size_t /*layer*/, const BackwardArgs&) {}
  virtual void AfterBackward(size_t /*layer*/, const BackwardArgs&) {}
  // A layer runs forward again in the backward pass (`recompute`).
  virtual void BeforeRecompute(size_t /*layer*/, const ForwardArgs&) {}
  virtual void AfterRecompute(size_t /*layer*/, const ForwardArgs&) {}
};

}  // namespace crema
