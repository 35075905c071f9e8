// Values that are ranges of the images of a larger one (graph/join_images.h).
#include <algorithm>
#include <span>

#include "runtime/session.h"

namespace crema {

// Any number of images lies as those of the plan do.
bool Session::IsRange(int v, const Shape& shape) const {
  const PlannedValue& value = plan_->values[static_cast<size_t>(v)];
  const Shape& planned = value.spec.shape;
  return value.range >= 0 && shape.axes() == planned.axes() && shape[0] <= planned[0] &&
         shape.With(0, planned[0]) == planned;
}

TensorView Session::RangeView(int v, const ArenaSlot& slot, const BlobSpec& spec,
                              const std::vector<Tensor>& apart) const {
  if (slot.offset < 0 || slot.image_stride == 0) return ViewOf(slot, spec);
  if (!IsRange(v, spec.shape)) {
    const auto range = static_cast<size_t>(plan_->values[static_cast<size_t>(v)].range);
    CREMA_CHECK(range < apart.size() && !apart[range].view().empty());
    return {const_cast<void*>(apart[range].view().raw()), spec.shape, StoredType(spec),
            context_.device()};
  }
  TensorView view = ViewOf(slot, spec);
  // One image alone is dense.
  if (spec.shape[0] > 1) {
    view.set_image_stride(slot.image_stride / static_cast<int64_t>(SizeOf(view.dtype())));
  }
  return view;
}

TensorView Session::DataView(int v, const BlobSpec& spec) const {
  return RangeView(v, plan_->values[static_cast<size_t>(v)].data, spec, apart_);
}

TensorView Session::GradientView(int v, const BlobSpec& spec) const {
  return RangeView(v, plan_->values[static_cast<size_t>(v)].gradient, spec, apart_gradients_);
}

// Kept from then on; no extents need more than those of the plan.
void Session::TakeMemoryApart(int v) {
  const PlannedValue& value = plan_->values[static_cast<size_t>(v)];
  const auto range = static_cast<size_t>(value.range);
  const auto take = [&](const ArenaSlot& slot, std::vector<Tensor>* tensors) {
    if (slot.offset < 0) return;
    tensors->resize(plan_->values.size());
    Tensor& tensor = (*tensors)[range];
    if (tensor.view().empty()) tensor = ByteTensor(static_cast<size_t>(slot.bytes));
  };
  take(value.data, &apart_);
  take(value.gradient, &apart_gradients_);
}

// A Concat in a Concat does not run where its output is a range, nor does a view of one.
int64_t Session::OutputStrideOf(const PlannedLayer& layer) const {
  if (layer.outputs.size() != 1 || layer.joined_images || layer.info.view) return 0;
  return DataOf(layer.outputs[0]).image_stride();
}

// Whether its inputs are where its output has them, with the extents of now.
bool Session::IsJoined(const PlannedLayer& layer) const {
  const auto shape = [&](int v) -> const Shape& { return shapes_[static_cast<size_t>(v)]; };
  if (layer.joined) {
    return std::ranges::all_of(layer.inputs, [&](int v) {
      return shape(v) == plan_->values[static_cast<size_t>(v)].spec.shape;
    });
  }
  if (!layer.joined_images) return false;
  const auto ranges =
      std::ranges::count_if(layer.inputs, [&](int v) { return IsRange(v, shape(v)); });
  const auto inputs = static_cast<std::ptrdiff_t>(layer.inputs.size());
  // Some where they were planned and some elsewhere: what is copied would overwrite the former.
  if ((ranges != 0 || DataOf(layer.outputs[0]).image_stride() != 0) && ranges != inputs) {
    FailInputs(*layer.layer,
               "the channels of some of its inputs are other ones than planned; plan a net of "
               "these extents");
  }
  return ranges == inputs;
}

// Only rows that ask for them see tensors that are not dense, and as output 0 and its gradient.
void Session::CheckStrides(const PlannedLayer& layer, const Step& step, bool backward) const {
  const auto dense = [](const auto& views) {
    return std::ranges::all_of(views, [](const auto& v) { return v.image_stride() == 0; });
  };
  const bool can =
      step.kernel != nullptr && step.kernel->strided_output != nullptr && layer.outputs.size() == 1;
  if (!backward) {
    if (!layer.forward || step.joined) return;
    CREMA_CHECK(dense(step.forward_inputs) && (can || dense(step.forward_outputs)));
    return;
  }
  if (layer.info.view || (layer.joined_images && step.joined)) return;
  CREMA_CHECK(dense(step.backward_inputs) && dense(step.input_grads));
  CREMA_CHECK(can || (dense(step.backward_outputs) && dense(step.output_grads)));
}

}  // namespace crema
