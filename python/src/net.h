// A net in Python, opened from a file or taken from a solver.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "feed.h"
#include "python_layer.h"
#include "runtime/interactive_net.h"

namespace crema::python {

// Functions that are called with the index of a layer before and after it runs.
struct NetCallbacks {
  std::vector<nb::object> before_forward, after_forward, before_backward, after_backward;

  // Returns the list of an event, by its name. Throws kInvalidArgument.
  std::vector<nb::object>& At(const std::string& event);
};

// Thread safety: any number of threads; the guard lets in one at a time.
struct Net {
  std::shared_ptr<Guard> guard;  // shared by the nets of a solver
  std::shared_ptr<PythonObjects> objects = std::make_shared<PythonObjects>();
  std::unique_ptr<InteractiveNet> net;
  NetCallbacks callbacks;
  std::function<void()> on_weights;  // of a net of a solver: its weights were written
};

// Returns a net of a solver.
std::shared_ptr<Net> NetOf(std::shared_ptr<Guard> guard, std::shared_ptr<PythonObjects> objects,
                           std::shared_ptr<Session> session, std::function<void()> on_weights);

}  // namespace crema::python
