// Arrays, blobs and locks that the bindings share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/tensor.h"
#include "gil.h"
#include "graph/plugin.h"
#include "graph/registry.h"
#include "runtime/interactive_net.h"

namespace crema {
class Model;
}

namespace crema::python {

namespace nb = nanobind;

// Returns a NumPy array over the memory of the view, writable, which holds the owner. Throws
// kUnsupported for an element type that NumPy lacks.
nb::object ArrayOf(const HeldView& held);
// Returns the model as a crema.Model.
nb::object ObjectOf(std::shared_ptr<const Model> model);
nb::tuple TupleOf(const Shape& shape);
// Returns the shape of sizes, or of one sequence of them. Throws TypeError.
Shape ShapeOf(const nb::args& sizes);
// Throws TypeError.
void RequireCallable(nb::handle callback);

using Path = std::filesystem::path;
using Paths = std::variant<Path, std::vector<Path>>;
std::vector<std::string> NamesOf(const Paths& paths);
// Returns a str or an os.PathLike as a path; nothing for another type. Throws ValueError for one
// that contains a zero.
std::optional<std::string> PathOf(nb::handle given);

// Returns a crema.Error. Requires the GIL.
nb::object ErrorOf(const Problem& problem);

// All layer types, with those of plugins that were loaded.
GrowingRegistry& AllLayers();
// Returns the present layer types, which never change.
const Registry& Layers();

// Keeps several threads out of nets that belong together (those of a solver), and a program out of
// a net that is running: a layer or a callback in Python may look at blobs, but not start a pass.
// Thread safety: with the GIL.
class Guard {
 public:
  // Locks, without the GIL while it waits. Throws kInvalidArgument if the thread that has the guard
  // waits for one of this thread, or was lost in a fork.
  class Lock {
   public:
    explicit Lock(Guard& guard);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    Guard& guard_;
  };

  // A lock for calls that run or change the net. Throws kInvalidArgument inside of another one.
  class Run {
   public:
    explicit Run(Guard& guard);
    ~Run() { guard_.running_ = false; }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    Lock lock_;
    Guard& guard_;
  };

  // Makes this thread the one that has the guard, without a lock: it makes what others wait for.
  // Until Leave, Lock throws for the guard `fed` of the net that it makes data for.
  void Enter(const std::weak_ptr<Guard>* fed);
  void Leave();
  // Says that this thread waits for the one that entered, until EndWait with the result. Throws
  // like Lock.
  const Guard* BeginWait();
  static void EndWait(const Guard* before);

 private:
  struct Thread;
  static Thread& ThisThread();
  void RequireEnd() const;

  std::recursive_mutex mutex_;
  const Thread* owner_ = nullptr;
  int depth_ = 0;
  int process_ = ProcessNumber();  // in which it was last locked
  bool running_ = false;
};

// A blob as programs see it: values and gradients under a shape.
class Blob {
 public:
  virtual ~Blob() = default;
  virtual HeldView Data() = 0;
  virtual HeldView Gradient() = 0;
  virtual Shape GetShape() = 0;
  virtual void Reshape(const Shape& shape) = 0;
};

// Registers the classes of a file with the module.
void BindBlobs(nb::module_& module);
void BindCheckLayer(nb::module_& module);
void BindDnn(nb::module_& module);
void BindErrors(nb::module_& module);
void BindLook(nb::module_& module);
void BindModel(nb::module_& module);
void BindCascade(nb::module_& module);
void BindNet(nb::module_& module);
void BindSchema(nb::module_& module);
void BindSolver(nb::module_& module);
void BindStateDict(nb::module_& module);

}  // namespace crema::python
