#include "declared_layer.h"

#include <google/protobuf/text_format.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "layers/python/python_layers.h"
#include "python_layer.h"
#include "user_code.h"

namespace crema::python {
namespace {

using Sizes = std::vector<int64_t>;

Shape ShapeOfSizes(const Sizes& sizes) { return Shape(std::span<const int64_t>(sizes)); }

FillerParameter FillerOf(const std::string& text) {
  FillerParameter filler;
  if (!google::protobuf::TextFormat::ParseFromString(text, &filler)) {
    Fail(ErrorCode::kInvalidArgument, StrCat("a filler has wrong fields: ", text));
  }
  return filler;
}

// The arrays of one call: over the memory of the net, or over copies where nothing would keep that
// memory alive as long as the arrays.
class CallArrays {
 public:
  CallArrays() : copies_(RunningOwner() == nullptr && !IsPythonEmbedded()) {}

  // An entry is None for memory that there is not.
  template <typename Views>
  nb::list Read(const Views& views) {
    nb::list list;
    for (const ConstTensorView view : views) {
      list.append(ArrayOver({const_cast<void*>(view.raw()), view.shape(), view.dtype()}, false));
    }
    return list;
  }
  nb::list Write(std::span<const TensorView> views) {
    nb::list list;
    for (const TensorView& view : views) list.append(ArrayOver(view, true));
    return list;
  }
  void CopyBack() {
    for (const Copy& copy : made_) {
      const TensorView from = copy.tensor->view();
      if (copy.is_written && from.bytes() > 0) std::memcpy(copy.of, from.raw(), from.bytes());
    }
  }

 private:
  struct Copy {
    void* of;
    bool is_written;
    std::shared_ptr<Tensor> tensor;
  };

  nb::object ArrayOver(const TensorView& view, bool is_written) {
    if (view.raw() == nullptr && view.count() > 0) return nb::none();
    if (!copies_) return ArrayOf({view, RunningOwner()});
    // A layer in place gets one copy for both.
    auto copy = std::ranges::find_if(made_, [&](const Copy& made) {
      return made.of == view.raw() && made.tensor->view().bytes() == view.bytes();
    });
    if (copy == made_.end()) {
      copy = made_.insert(
          copy, {view.raw(), false, std::make_shared<Tensor>(view.shape(), view.dtype())});
      if (view.bytes() > 0) std::memcpy(copy->tensor->view().raw(), view.raw(), view.bytes());
    }
    copy->is_written = copy->is_written || is_written;
    const TensorView own = copy->tensor->view();
    return ArrayOf({{own.raw(), view.shape(), view.dtype()}, copy->tensor});
  }

  const bool copies_;
  std::vector<Copy> made_;
};

class DeclaredLayer final : public Layer {
 public:
  // Gives the adapter to the net that is planned, if a net of Python is.
  DeclaredLayer(const LayerParameter& param, nb::object adapter)
      : Layer(param), own_(std::make_shared<const UserObject>(std::move(adapter))), adapter_(own_) {
    PythonObjects* const objects = ReusedObjects();
    if (objects == nullptr) return;
    objects->declared.emplace(this, std::exchange(own_, nullptr));
    objects_ = objects->weak_from_this();
  }
  ~DeclaredLayer() override {
    if (own_ != nullptr || objects_.expired() || !nb::is_alive()) return;
    const GilHeld gil;
    const std::shared_ptr<PythonObjects> objects = objects_.lock();
    if (objects == nullptr) return;
    const auto last = objects->declared.extract(this);  // dies when the map is whole again
  }

  LayerInfo Infer(const InferContext& context) const override {
    return CallUser(param().name(), [&] {
      nb::list shapes;
      for (const BlobSpec& input : context.inputs) shapes.append(TupleOf(input.shape));
      const auto said =
          nb::cast<nb::dict>(CallMethod(Adapter(), "infer", shapes, context.output_count));
      LayerInfo info;
      for (const Sizes& sizes : nb::cast<std::vector<Sizes>>(said["outputs"])) {
        info.outputs.push_back({ShapeOfSizes(sizes), context.dtype});
      }
      using Parameter = std::tuple<std::string, Sizes, std::string>;
      for (const auto& [role, sizes, filler] :
           nb::cast<std::vector<Parameter>>(said["parameters"])) {
        info.parameters.push_back({role, ShapeOfSizes(sizes), FillerOf(filler)});
      }
      info.backward_reads_input = nb::cast<std::vector<bool>>(said["reads_bottom"]);
      info.backward_reads_output = nb::cast<std::vector<bool>>(said["reads_top"]);
      info.gradient_forbidden = nb::cast<std::vector<bool>>(said["no_gradient"]);
      info.shared_inputs = nb::cast<std::vector<bool>>(said["shared"]);
      // Its place is where the adapter keeps the graph of autograd for, if backward follows.
      if (nb::cast<bool>(said["autograd"])) info.saved.push_back({Shape{1}, DType::kF32});
      info.in_place = nb::cast<bool>(said["in_place"]);
      info.reach = static_cast<Reach>(nb::cast<int>(said["reach"]));
      info.moves_only = nb::cast<bool>(said["moves_only"]);
      info.constant = nb::cast<bool>(said["constant"]);
      CheckClaims(context, info);
      return info;
    });
  }

  void Forward(const ForwardArgs& args) const override {
    CallUser(param().name(), [&] {
      CallArrays arrays;
      CallMethod(Adapter(), "forward", arrays.Read(args.inputs), arrays.Write(args.outputs),
                 arrays.Read(args.parameters), PlaceOf(args.saved));
      arrays.CopyBack();
    });
  }

  void Backward(const BackwardArgs& args) const override {
    CallUser(param().name(), [&] {
      CallArrays arrays;
      CallMethod(Adapter(), "backward", arrays.Read(args.output_grads), arrays.Read(args.inputs),
                 arrays.Read(args.outputs), arrays.Read(args.parameters),
                 arrays.Write(args.input_grads), arrays.Write(args.parameter_grads),
                 PlaceOf(args.saved));
      arrays.CopyBack();
    });
  }

 private:
  // Refuses claims that cannot be true for these shapes, since the planner relies on them.
  void CheckClaims(const InferContext& context, const LayerInfo& info) const {
    if (context.inputs.empty()) return;
    const Shape& first = context.inputs[0].shape;
    const auto is_first = [&](const BlobSpec& spec) { return spec.shape == first; };
    const auto has_batch = [&](const BlobSpec& spec) {
      return spec.shape.axes() > 0 && first.axes() > 0 && spec.shape[0] == first[0];
    };
    if (info.in_place && (info.outputs.empty() || !is_first(info.outputs[0]))) {
      FailInputs(*this, "the class claims in_place, but its top has another shape than bottom 0");
    }
    const auto holds = [&](const auto& of) {
      for (size_t i = 0; i < context.inputs.size(); ++i) {
        if (!info.shared_inputs[i] && !of(context.inputs[i])) return false;
      }
      return std::ranges::all_of(info.outputs, of);
    };
    if (info.reach >= Reach::kPlace && !holds(is_first)) {
      FailInputs(*this, "the class claims a reach of places, but its shapes differ");
    }
    if (info.reach == Reach::kSample && !holds(has_batch)) {
      FailInputs(*this, "the class claims a reach of samples, but axis 0 differs");
    }
  }

  // Returns a number for the pass of a session that runs forward and then backward; else 0.
  template <typename View>
  static uintptr_t PlaceOf(std::span<const View> saved) {
    return saved.empty() ? 0 : reinterpret_cast<uintptr_t>(saved[0].raw());
  }

  nb::object Adapter() const {
    const std::shared_ptr<const UserObject> adapter = adapter_.lock();
    if (adapter == nullptr) Fail(ErrorCode::kInvalidArgument, "the net of this layer was closed");
    return **adapter;
  }

  std::shared_ptr<const UserObject> own_;  // null: the net has it
  std::weak_ptr<const UserObject> adapter_;
  std::weak_ptr<PythonObjects> objects_;
};

}  // namespace

std::unique_ptr<const Layer> MakeDeclaredLayer(const LayerParameter& param, nb::handle type) {
  nb::object adapter =
      CallMethod(nb::module_::import_("crema._layer"), "Adapter", type,
                 param.python_param().param_str(), static_cast<int>(param.phase()), param.name());
  return std::make_unique<const DeclaredLayer>(param, std::move(adapter));
}

}  // namespace crema::python
