// Observes every layer that a session runs, to time it or to examine its outputs.
#pragma once

#include <cstddef>

#include "graph/layer.h"

namespace crema {

// `layer` is an index into the plan. The arguments are those of the layer: blobs may share memory
// with later ones, so values must be read during the call. Layers that do not run (views, splits)
// are not reported. An exception ends the pass as if the layer had thrown it; after a layer has
// thrown, its After... is not called. Thread safety: called on the thread of the session.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual void BeforeForward(size_t /*layer*/, const ForwardArgs&) {}
  virtual void AfterForward(size_t /*layer*/, const ForwardArgs&) {}
  virtual void BeforeBackward(size_t /*layer*/, const BackwardArgs&) {}
  virtual void AfterBackward(size_t /*layer*/, const BackwardArgs&) {}
  // Called before a layer runs forward again in the backward pass (`recompute`).
  virtual void BeforeRecompute(size_t /*layer*/, const ForwardArgs&) {}
  virtual void AfterRecompute(size_t /*layer*/, const ForwardArgs&) {}
};

}  // namespace crema
