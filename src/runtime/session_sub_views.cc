// Values that are ranges of the images of a larger one (plan/memory/concat_in_place.h).
#include <algorithm>
#include <span>

#include "runtime/session.h"

namespace crema {

// Any number of images lies as those of the plan do.
bool Session::IsSubView(int v, const Shape& shape) const {
  const PlannedValue& value = plan_->values[static_cast<size_t>(v)];
  const Shape& planned = value.spec.shape;
  return value.sub_view_of >= 0 && shape.axes() == planned.axes() && shape[0] <= planned[0] &&
         shape.With(0, planned[0]) == planned;
}

TensorView Session::SubView(int v, const ArenaSlot& slot, const BlobSpec& spec,
                            const std::vector<Tensor>& own) const {
  if (slot.offset < 0 || slot.image_stride == 0) return ViewOf(slot, spec);
  if (!IsSubView(v, spec.shape)) {
    const auto group = static_cast<size_t>(plan_->values[static_cast<size_t>(v)].sub_view_of);
    CREMA_CHECK(group < own.size() && !own[group].view().empty());
    return {const_cast<void*>(own[group].view().raw()), spec.shape, StoredType(spec),
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
  return SubView(v, plan_->values[static_cast<size_t>(v)].data, spec, own_data_);
}

TensorView Session::GradientView(int v, const BlobSpec& spec) const {
  return SubView(v, plan_->values[static_cast<size_t>(v)].gradient, spec, own_gradients_);
}

// Kept from then on; no extents need more than those of the plan.
void Session::TakeOwnMemory(int v) {
  const PlannedValue& value = plan_->values[static_cast<size_t>(v)];
  const auto group = static_cast<size_t>(value.sub_view_of);
  const auto take = [&](const ArenaSlot& slot, std::vector<Tensor>* tensors) {
    if (slot.offset < 0) return;
    tensors->resize(plan_->values.size());
    Tensor& tensor = (*tensors)[group];
    if (tensor.view().empty()) tensor = ByteTensor(static_cast<size_t>(slot.bytes));
  };
  take(value.data, &own_data_);
  take(value.gradient, &own_gradients_);
}

// A Concat in a Concat does not run where its output is a range, nor does a view of one.
int64_t Session::OutputStrideOf(const PlannedLayer& layer) const {
  if (layer.outputs.size() != 1 || layer.strided_concat_in_place || layer.info.view) return 0;
  return DataOf(layer.outputs[0]).image_stride();
}

// Whether its inputs are where its output has them, with the extents of now.
bool Session::IsConcatInPlace(const PlannedLayer& layer) const {
  const auto shape = [&](int v) -> const Shape& { return shapes_[static_cast<size_t>(v)]; };
  if (layer.concat_in_place) {
    return std::ranges::all_of(layer.inputs, [&](int v) {
      return shape(v) == plan_->values[static_cast<size_t>(v)].spec.shape;
    });
  }
  if (!layer.strided_concat_in_place) return false;
  const auto sub_views =
      std::ranges::count_if(layer.inputs, [&](int v) { return IsSubView(v, shape(v)); });
  const auto inputs = static_cast<std::ptrdiff_t>(layer.inputs.size());
  // Some where they were planned and some elsewhere: what is copied would overwrite the former.
  if ((sub_views != 0 || DataOf(layer.outputs[0]).image_stride() != 0) && sub_views != inputs) {
    FailInputs(*layer.layer,
               "the channels of some of its inputs are other ones than planned; plan a net of "
               "these extents");
  }
  return sub_views == inputs;
}

// Only implementations that ask for them see tensors that are not dense, and as output 0 and its
// gradient.
void Session::CheckStrides(const PlannedLayer& layer, const Step& step, bool backward) const {
  const auto dense = [](const auto& views) {
    return std::ranges::all_of(views, [](const auto& v) { return v.image_stride() == 0; });
  };
  const bool can = step.implementation != nullptr && step.implementation->strided_output &&
                   layer.outputs.size() == 1;
  if (!backward) {
    if (!layer.forward || step.concat_in_place) return;
    CREMA_CHECK(dense(step.forward_inputs) && (can || dense(step.forward_outputs)));
    return;
  }
  if (layer.info.view || (layer.strided_concat_in_place && step.concat_in_place)) return;
  CREMA_CHECK(dense(step.backward_inputs) && dense(step.input_grads));
  CREMA_CHECK(can || (dense(step.backward_outputs) && dense(step.output_grads)));
}

}  // namespace crema
