#include "runtime/session_values.h"

#include "core/device_memory.h"
#include "core/strings.h"

namespace crema {

void CheckFits(BlobSpec spec, const BlobSpec& planned, const std::string& what) {
  spec.format = planned.format;
  const bool of_pixels = spec.format.layout == Layout::kBlocked || spec.format.type == DType::kU8 ||
                         (spec.format.layout == Layout::kNHWC && spec.format.type == DType::kBF16);
  const bool same_axes = !of_pixels || spec.shape.axes() == 4;
  if (same_axes && StoredCount(spec) <= StoredCount(planned) && spec.dtype == planned.dtype) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat(what, " would be ", ToString(spec.shape), ", but the net was planned for at most ",
              planned.shape.count(), " elements (", ToString(planned.shape), ")"));
}

SessionValues::SessionValues(const Plan& plan, const ExecContext& context)
    : plan_(plan),
      context_(context),
      arena_(static_cast<size_t>(plan.arena_bytes), context),
      external_buffers_(plan.values.size(), nullptr) {
  for (const PlannedValue& value : plan.values) shapes_.push_back(value.spec.shape);
}

void SessionValues::SetShape(int v, const Shape& shape) {
  if (shapes_[static_cast<size_t>(v)] == shape) return;
  // Memory first: if there is none, the shape stays as it is.
  const PlannedValue& value = Planned(v);
  if (value.sub_view_of >= 0 && !IsSubView(v, shape)) AllocateOwnMemory(v);
  if (CanGrow()) {
    const BlobSpec spec{shape, value.spec.dtype, value.spec.format};
    Reserve(value.data, spec);
    Reserve(value.gradient, spec, value.gradient_written ? 0 : value.loss_weight);
  }
  shapes_[static_cast<size_t>(v)] = shape;
  ++version_;
}

void SessionValues::Reserve(const ArenaSlot& slot, const BlobSpec& spec, float fill) {
  const int64_t bytes = StoredBytes(spec);
  if (slot.offset < 0 || slot.buffer_owner >= 0 || bytes <= slot.bytes) return;
  CREMA_CHECK(CanGrow());
  auto grown = grown_ == nullptr ? std::make_shared<Grown>() : std::make_shared<Grown>(*grown_);
  std::shared_ptr<ByteMemory>& memory = (*grown)[slot.offset];
  if (memory != nullptr && static_cast<int64_t>(memory->bytes()) >= bytes) return;
  memory = std::make_shared<ByteMemory>(static_cast<size_t>(bytes), context_);
  if (fill != 0) {
    // All of it, rounded up: a later shape may need more than this one.
    const auto count = static_cast<int64_t>(memory->bytes() / SizeOf(StoredType(spec)));
    FillWith(context_, {memory->data(), Shape{count}, StoredType(spec), context_.device()}, fill);
  }
  grown_ = std::move(grown);
}

BlobSpec SessionValues::Spec(int v) const {
  const BlobSpec& planned = Planned(v).spec;
  return {shape(v), planned.dtype, planned.format};
}

bool SessionValues::IsSubView(int v, const Shape& shape) const {
  const Shape& planned = Planned(v).spec.shape;
  return Planned(v).sub_view_of >= 0 && shape.axes() == planned.axes() && shape[0] <= planned[0] &&
         shape.With(0, planned[0]) == planned;
}

// The memory has the planned size, so that it fits all later shapes.
void SessionValues::AllocateOwnMemory(int v) {
  const PlannedValue& value = Planned(v);
  const auto group = static_cast<size_t>(value.sub_view_of);
  const auto allocate = [&](const ArenaSlot& slot, std::vector<ByteMemory>* memories) {
    if (slot.offset < 0) return;
    memories->resize(plan_.values.size());
    ByteMemory& memory = (*memories)[group];
    if (memory.data() == nullptr) memory = ByteMemory(static_cast<size_t>(slot.bytes), context_);
  };
  allocate(value.data, &own_data_);
  allocate(value.gradient, &own_gradients_);
}

TensorView SessionValues::View(const ArenaSlot& slot, const BlobSpec& spec) const {
  if (slot.offset < 0) return {};
  if (slot.buffer_owner >= 0) {
    return {external_buffers_[static_cast<size_t>(slot.buffer_owner)], spec.shape, StoredType(spec),
            context_.device()};
  }
  if (grown_ != nullptr) {
    const auto grown = grown_->find(slot.offset);
    if (grown != grown_->end()) {
      return {grown->second->data(), spec.shape, StoredType(spec), context_.device()};
    }
  }
  return {arena_.data() + slot.offset, spec.shape, StoredType(spec), context_.device()};
}

TensorView SessionValues::SubView(int v, const ArenaSlot& slot, const BlobSpec& spec,
                                  const std::vector<ByteMemory>& own) const {
  if (slot.offset < 0 || slot.image_stride == 0) return View(slot, spec);
  if (!IsSubView(v, spec.shape)) {
    const auto group = static_cast<size_t>(Planned(v).sub_view_of);
    CREMA_CHECK(group < own.size() && own[group].data() != nullptr);
    return {own[group].data(), spec.shape, StoredType(spec), context_.device()};
  }
  TensorView view = View(slot, spec);
  // A single image is dense.
  if (spec.shape[0] > 1) {
    view.set_image_stride(slot.image_stride / static_cast<int64_t>(SizeOf(view.dtype())));
  }
  return view;
}

TensorView SessionValues::Data(int v, const BlobSpec& spec) const {
  return SubView(v, Planned(v).data, spec, own_data_);
}

TensorView SessionValues::Gradient(int v) const {
  return SubView(v, Planned(v).gradient, Spec(v), own_gradients_);
}

TensorView SessionValues::LateData(int v) const {
  return Planned(v).again.offset < 0 ? Data(v) : View(Planned(v).again, Spec(v));
}

}  // namespace crema
