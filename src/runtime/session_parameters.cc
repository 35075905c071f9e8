#include "runtime/session_parameters.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/device_memory.h"

namespace crema {

SessionParameters::SessionParameters(const Plan& plan, const ExecContext& context,
                                     std::shared_ptr<const Weights> weights,
                                     std::shared_ptr<Weights> updated)
    : plan_(plan), context_(context), weights_(std::move(weights)), updated_(std::move(updated)) {
  CREMA_CHECK(weights_->size() == plan.parameters.size());
  Upload();
  AllocateGradients();
}

void SessionParameters::AllocateGradients() {
  const DType dtype = plan_.options.dtype;
  size_t bytes = 0;
  std::vector<size_t> offsets(plan_.parameters.size());
  for (size_t s = 0; s < plan_.parameters.size(); ++s) {
    const ParameterSlot& slot = plan_.parameters[s];
    if (!Owns(s) || !slot.wants_gradient) continue;
    offsets[s] = bytes;
    bytes += (static_cast<size_t>(slot.shape.count()) * SizeOf(dtype) + 63) / 64 * 64;
  }
  gradient_memory_ = ByteMemory(bytes, context_);
  std::byte* base = gradient_memory_.data();
  for (const ParameterSlot& slot : plan_.parameters) {
    const auto owner = static_cast<size_t>(slot.owner);
    gradients_.push_back(
        plan_.parameters[owner].wants_gradient
            ? TensorView(base + offsets[owner], slot.shape, dtype, context_.device())
            : TensorView());
  }
}

TensorView SessionParameters::Blob(size_t slot) const {
  if (OnGpu()) {
    const auto owner = static_cast<size_t>(plan_.parameters[slot].owner);
    return const_cast<Tensor&>(copies_[owner]).view();
  }
  const ConstTensorView blob = weights_->blob(slot);
  return {const_cast<void*>(blob.raw()), blob.shape(), blob.dtype(), blob.device()};
}

void SessionParameters::Upload() {
  if (!OnGpu()) return;
  copies_.resize(plan_.parameters.size());
  for (size_t s = 0; s < plan_.parameters.size(); ++s) {
    if (!Owns(s)) continue;
    const ConstTensorView blob = weights_->blob(s);
    Tensor& copy = copies_[s];
    if (copy.view().empty()) copy = Tensor(blob.shape(), blob.dtype(), context_.allocator());
    crema::Upload(context_, copy.view().raw(), blob.raw(), copy.view().bytes());
  }
}

void SessionParameters::DownloadStatistics() {
  if (!OnGpu() || updated_ == nullptr) return;
  for (const PlannedLayer& layer : plan_.layers) {
    for (size_t i = 0; i < layer.parameters.size(); ++i) {
      if (!layer.info.parameters[i].statistic) continue;
      const auto slot = static_cast<size_t>(layer.parameters[i]);
      crema::Download(context_, updated_->blob(slot).raw(), Blob(slot).raw(), Blob(slot).bytes());
    }
  }
}

void SessionParameters::Download() {
  if (!OnGpu()) return;
  CREMA_CHECK(updated_ != nullptr);
  for (size_t s = 0; s < plan_.parameters.size(); ++s) {
    if (!Owns(s)) continue;
    crema::Download(context_, updated_->blob(s).raw(), Blob(s).raw(), Blob(s).bytes());
  }
}

std::span<float> SessionParameters::GradientMemory() {
  CREMA_CHECK(plan_.options.dtype == DType::kF32);
  return {reinterpret_cast<float*>(gradient_memory_.data()),
          gradient_memory_.bytes() / sizeof(float)};
}

void SessionParameters::ZeroGradients() {
  const size_t bytes = gradient_memory_.bytes();
  if (!OnGpu()) {
    std::fill_n(gradient_memory_.data(), bytes, std::byte{0});
  } else if (bytes > 0) {
    const auto floats = static_cast<int64_t>(bytes / sizeof(float));
    context_.queue()->Fill(DType::kF32, floats, 0, gradient_memory_.data());
  }
}

}  // namespace crema
