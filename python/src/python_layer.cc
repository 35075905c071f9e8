#include "python_layer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "declared_layer.h"
#include "graph/has_initial_parameters.h"
#include "graph/has_larger_outputs.h"

namespace crema::python {
namespace {

thread_local PythonObjects* reused_objects = nullptr;
thread_local bool reuses_both_phases = false;
thread_local MemoryOwner running_net;

TensorView Writable(const ConstTensorView& view) {
  return {const_cast<void*>(view.raw()), view.shape(), view.dtype()};
}

void Resize(size_t count, LayerBlobs* blobs) {
  blobs->blobs.resize(count);
  for (auto& blob : blobs->blobs) {
    if (blob == nullptr) blob = std::make_shared<LayerBlob>();
  }
}

nb::object MakeObject(const LayerParameter& param, nb::handle type) {
  const Apart apart;
  nb::object object = WaitIfExiting([&]() -> nb::object { return type(nb::none()); });
  object.attr("param_str") = nb::str(param.python_param().param_str().c_str());
  object.attr("phase") = static_cast<int>(param.phase());
  object.attr("name") = nb::str(param.name().c_str());
  return object;
}

// Returns a pointer that does not own. The net that owns an object outlives runs of its layers.
std::shared_ptr<PythonObject> Borrow(const std::shared_ptr<PythonObject>& object) {
  return {std::shared_ptr<void>(), object.get()};
}

std::shared_ptr<PythonObject> ObjectFor(const LayerParameter& param, nb::handle type) {
  const bool reuse = reused_objects != nullptr && (reuses_both_phases || param.phase() == TRAIN);
  if (reuse) {
    const auto found = reused_objects->layers.find(param.name());
    if (found != reused_objects->layers.end()) return Borrow(found->second);
  }
  auto made = std::make_shared<PythonObject>(MakeObject(param, type));
  (*made->object).attr("blobs") = nb::cast(made->parameters);
  if (reused_objects == nullptr) return made;
  auto& all = reused_objects->layers;
  all.emplace(reuse ? param.name() : StrCat(param.name(), " ", all.size()), made);
  return Borrow(made);
}

// Binds the blobs of a layer during a pass.
class Bound {
 public:
  explicit Bound(PythonObject* object) : object_(*object) {}
  ~Bound() {
    for (LayerBlobs* blobs : {&object_.bottoms, &object_.tops, object_.parameters.get()}) {
      for (const auto& blob : blobs->blobs) blob->Unbind();
    }
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  void Parameters(std::span<const ConstTensorView> data, std::span<const TensorView> gradients) {
    Bind(data, gradients, object_.parameters.get());
  }
  void Bottoms(std::span<const ConstTensorView> data, std::span<const TensorView> gradients) {
    Bind(data, gradients, &object_.bottoms);
  }
  void Tops(std::span<const ConstTensorView> data, std::span<const TensorView> gradients,
            bool grow) {
    Bind(data, gradients, &object_.tops, grow);
  }

 private:
  void Bind(std::span<const ConstTensorView> data, std::span<const TensorView> gradients,
            LayerBlobs* blobs, bool grow = false) {
    for (size_t i = 0; i < data.size(); ++i) {
      blobs->blobs.at(i)->Bind(Writable(data[i]),
                               i < gradients.size() ? gradients[i] : TensorView(), owner_, grow);
    }
  }

  PythonObject& object_;
  const std::shared_ptr<const void> owner_ = RunningOwner();
};

class PythonLayer final : public Layer, public HasInitialParameters, public HasLargerOutputs {
 public:
  PythonLayer(const LayerParameter& param, nb::handle type)
      : Layer(param), object_(ObjectFor(param, type)) {}

  LayerInfo Infer(const InferContext& context) const override {
    return CallUser(param().name(), [&] {
      std::vector<Shape> shapes;
      for (const BlobSpec& input : context.inputs) shapes.push_back(input.shape);
      object_->Reshape(shapes, context.output_count);
      LayerInfo info;
      for (const auto& top : object_->tops.blobs) {
        info.outputs.push_back({top->GetShape(), context.dtype});
      }
      for (const auto& blob : object_->parameters->blobs) {
        info.parameters.push_back({"blob", blob->GetShape()});
      }
      info.backward_reads_input.assign(context.inputs.size(), true);
      info.backward_reads_output.assign(context.output_count, true);
      info.dynamic_outputs = true;
      return info;
    });
  }

  void SetInitial(size_t index, const TensorView& to) const override {
    const GilHeld gil;
    const HeldView from = object_->parameters->blobs.at(index)->Data();
    DispatchFloat(to.dtype(), [&]<typename T>(T) {
      std::copy_n(from.view.data<float>(), to.count(), to.data<T>());
    });
  }

  void Forward(const ForwardArgs& args) const override {
    CallUser(param().name(), [&] {
      const Guard::Lock lock(object_->guard);
      Bound bound(object_.get());
      bound.Bottoms(args.inputs, {});
      bound.Parameters(args.parameters, {});
      const std::vector<ConstTensorView> outputs(args.outputs.begin(), args.outputs.end());
      std::vector<Shape> shapes;
      for (const auto& top : object_->tops.blobs) shapes.push_back(top->GetShape());
      bound.Tops(outputs, {}, true);
      for (size_t o = 0; o < shapes.size(); ++o) object_->tops.blobs[o]->Reshape(shapes[o]);
      object_->CallReshape();
      CallMethod(*object_->object, "forward", ListOf(object_->bottoms), ListOf(object_->tops));
      for (size_t o = 0; o < outputs.size(); ++o) {
        args.output_shapes[o] = object_->tops.blobs[o]->GetShape();
      }
    });
  }

  void CopyOutput(size_t output, const TensorView& to) const override {
    const GilHeld gil;
    object_->tops.blobs.at(output)->MoveTo(to);
  }

  void Backward(const BackwardArgs& args) const override {
    CallUser(param().name(), [&] {
      const Guard::Lock lock(object_->guard);
      Bound bound(object_.get());
      bound.Bottoms(args.inputs, args.input_grads);
      bound.Parameters(args.parameters, args.parameter_grads);
      std::vector<TensorView> gradients;
      for (const ConstTensorView& gradient : args.output_grads) {
        gradients.push_back(Writable(gradient));
      }
      bound.Tops(args.outputs, gradients, false);
      nb::list propagate;
      for (const TensorView& gradient : args.input_grads) propagate.append(!gradient.empty());
      CallMethod(*object_->object, "backward", ListOf(object_->tops), propagate,
                 ListOf(object_->bottoms));
    });
  }

  static nb::list ListOf(const LayerBlobs& blobs) {
    nb::list list;
    for (const auto& blob : blobs.blobs) list.append(nb::cast(std::shared_ptr<Blob>(blob)));
    return list;
  }

 private:
  std::shared_ptr<PythonObject> object_;
};

}  // namespace

void LayerBlob::Reshape(const Shape& shape) {
  if (!data_.empty() && shape.count() > data_.count() && !grows_) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("a Python layer reshapes a top to ", ToString(shape),
                " during a pass, and the plan has memory for ", data_.count(),
                " elements; let the first call of its reshape give the largest shape, or reshape "
                "inputs of the net first"));
  }
  shape_ = shape;
}

void LayerBlob::Bind(const TensorView& data, const TensorView& gradient,
                     std::shared_ptr<const void> owner, bool grows) {
  grows_ = grows;
  shape_ = data.shape();
  data_ = data;
  gradient_ = gradient;
  owner_ = std::move(owner);
}

void LayerBlob::Unbind() {
  data_ = {};
  gradient_ = {};
  owner_ = nullptr;
}

void LayerBlob::MoveTo(const TensorView& to) {
  if (own_data_ != nullptr && own_data_->shape() == to.shape()) {
    std::memcpy(to.raw(), own_data_->view().raw(), to.bytes());
  }
  own_data_ = nullptr;
}

HeldView LayerBlob::View(const TensorView& bound, std::shared_ptr<Tensor>* own) const {
  if (!bound.empty() && shape_.count() <= bound.count()) {
    return {{bound.raw(), shape_, bound.dtype()}, owner_};
  }
  if (*own == nullptr || (*own)->shape() != shape_) {
    *own = std::make_shared<Tensor>(shape_, DType::kF32);
  }
  return {(*own)->view(), *own};
}

void PythonObject::Reshape(std::span<const Shape> bottom_shapes, size_t top_count) {
  Resize(bottom_shapes.size(), &bottoms);
  Resize(top_count, &tops);
  for (size_t i = 0; i < bottom_shapes.size(); ++i) {
    bottoms.blobs[i]->Reshape(bottom_shapes[i]);
  }
  if (!std::exchange(is_set_up, true)) {
    CallMethod(*object, "setup", PythonLayer::ListOf(bottoms), PythonLayer::ListOf(tops));
  }
  CallReshape();
}

void PythonObject::CallReshape() {
  CallMethod(*object, "reshape", PythonLayer::ListOf(bottoms), PythonLayer::ListOf(tops));
}

int PythonObjects::Traverse(visitproc visit, void* arg) const {
  for (const auto& [name, object] : layers) Py_VISIT((*object->object).ptr());
  for (const auto& [layer, object] : declared) Py_VISIT((**object).ptr());
  return 0;
}

ReuseObjects::ReuseObjects(PythonObjects* objects, bool both_phases)
    : objects_before_(std::exchange(reused_objects, objects)),
      both_phases_before_(std::exchange(reuses_both_phases, both_phases)) {}

ReuseObjects::~ReuseObjects() {
  reused_objects = objects_before_;
  reuses_both_phases = both_phases_before_;
}

RunningNet::RunningNet(MemoryOwner owner) : before_(std::exchange(running_net, std::move(owner))) {}

RunningNet::~RunningNet() { running_net = std::move(before_); }

PythonObjects* ReusedObjects() { return reused_objects; }

std::shared_ptr<const void> RunningOwner() {
  return running_net ? running_net() : std::shared_ptr<const void>();
}

std::unique_ptr<const Layer> MakeUserLayer(const LayerParameter& param) {
  const PythonParameter& python = param.python_param();
  if (python.module().empty() || python.layer().empty()) {
    Where where{.layer = param.name(), .field = "python_param"};
    Fail(ErrorCode::kInvalidArgument, "a Python layer needs a module and a layer (its class)",
         std::move(where));
  }
  return CallUser(param.name(), [&]() -> std::unique_ptr<const Layer> {
    const nb::object type =
        CallMethod(nb::module_::import_("crema._layer"), "make", python.module(), python.layer());
    if (nb::hasattr(type, "__crema_layer__")) return MakeDeclaredLayer(param, type);
    return std::make_unique<const PythonLayer>(param, type);
  });
}

}  // namespace crema::python
