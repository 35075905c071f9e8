// Layers of type "Python": a class of the user computes them, as in pycaffe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "graph/layer.h"
#include "user_code.h"

namespace crema::python {

// A blob of a Python layer: during a pass over the memory of the session, otherwise over memory of
// its own. Thread safety: with the GIL.
class LayerBlob final : public Blob {
 public:
  LayerBlob() = default;
  explicit LayerBlob(const Shape& shape) : shape_(shape) {}

  HeldView Data() override { return View(data_, &own_data_); }
  HeldView Gradient() override { return View(gradient_, &own_gradient_); }
  Shape GetShape() override { return shape_; }
  // Throws kInvalidArgument during a pass if it is too large for the memory and cannot grow.
  void Reshape(const Shape& shape) override;

  // Sets the memory until Unbind. An empty gradient: memory of its own. `owner` keeps it alive.
  // One that `grows` has memory of its own for a shape that is too large.
  void Bind(const TensorView& data, const TensorView& gradient, std::shared_ptr<const void> owner,
            bool grows);
  void Unbind();
  // Copies the values in memory of its own, and gives that up.
  void MoveTo(const TensorView& to);

 private:
  HeldView View(const TensorView& bound, std::shared_ptr<Tensor>* own) const;

  Shape shape_;
  TensorView data_, gradient_;
  bool grows_ = false;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<Tensor> own_data_, own_gradient_;
};

// The blobs of a layer in Python: a sequence to which setup may add parameters.
struct LayerBlobs {
  std::vector<std::shared_ptr<LayerBlob>> blobs;
};

// An object of the user's class and its blobs. It outlives a plan: the layer of the next plan of
// the same net takes it over.
struct PythonObject {
  explicit PythonObject(nb::object of) : object(std::move(of)) {}
  const UserObject object;
  Guard guard;  // threads that run one layer take turns: they would share the blobs
  bool is_set_up = false;
  LayerBlobs bottoms, tops;
  std::shared_ptr<LayerBlobs> parameters = std::make_shared<LayerBlobs>();

  // Calls setup once, then reshape. Require the GIL.
  void Reshape(std::span<const Shape> bottom_shapes, size_t top_count);
  void CallReshape();
};

struct Feed;

// Python objects that the layers of a net, or of the nets of a solver, use. Layers do not own it:
// arrays that an object keeps hold the session, which has the layers. Thread safety: with the GIL.
struct PythonObjects : std::enable_shared_from_this<PythonObjects> {
  // By layer name; those of test nets of a solver with a number.
  std::map<std::string, std::shared_ptr<PythonObject>> layers;
  // Objects of classes with @crema.layer, by the layer that uses them, until it dies.
  std::map<const Layer*, std::shared_ptr<const UserObject>> declared;
  std::vector<std::shared_ptr<Feed>> feeds;  // the texts of these nets have number + 1

  // Shows the objects of layers to the garbage collector, for the only owner of this.
  int Traverse(visitproc visit, void* arg) const;
};

// While it lives, layers that this thread makes for the phase TRAIN, or for both, take their
// objects from `objects`, and leave new ones there. `objects` keeps those of other layers too, and
// must live as long as the layers run.
class ReuseObjects {
 public:
  ReuseObjects(PythonObjects* objects, bool both_phases);
  ~ReuseObjects();
  ReuseObjects(const ReuseObjects&) = delete;
  ReuseObjects& operator=(const ReuseObjects&) = delete;

 private:
  PythonObjects* objects_before_;
  bool both_phases_before_;
};

// Returns the owner of the memory of a session as it is now.
using MemoryOwner = std::function<std::shared_ptr<const void>()>;

// While it lives, arrays of layers that this thread runs hold what `owner` returns.
class RunningNet {
 public:
  explicit RunningNet(MemoryOwner owner);
  ~RunningNet();
  RunningNet(const RunningNet&) = delete;
  RunningNet& operator=(const RunningNet&) = delete;

 private:
  MemoryOwner before_;
};

// While it lives, this thread runs code of the user: nets and models that it opens or runs
// meanwhile share nothing with the net that calls it.
class Apart {
 private:
  const ReuseObjects objects_{nullptr, false};
  const RunningNet net_{nullptr};
};

// Calls a method of the user's object. Requires the GIL.
template <typename... Args>
nb::object CallMethod(nb::handle object, const char* name, const Args&... args) {
  const Apart apart;
  return WaitIfExiting([&]() -> nb::object { return object.attr(name)(args...); });
}

// Returns the objects of the innermost ReuseObjects of this thread; null if there is none.
PythonObjects* ReusedObjects();

// Returns the owner of the innermost RunningNet of this thread; null if there is none.
std::shared_ptr<const void> RunningOwner();

// Makes a layer of type "Python" (layers/python/python_layers.h).
std::unique_ptr<const Layer> MakeUserLayer(const LayerParameter& param);

}  // namespace crema::python
