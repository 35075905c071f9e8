// Memory of the gradients of learned blobs.
#include "core/device_memory.h"
#include "runtime/session.h"

namespace crema {

void Session::AllocateLearnedGradients() {
  const int64_t size = static_cast<int64_t>(SizeOf(plan_->options.dtype));
  int64_t bytes = 0;
  std::vector<int64_t> offsets(plan_->learned.size(), -1);
  for (size_t s = 0; s < plan_->learned.size(); ++s) {
    const LearnedSlot& slot = plan_->learned[s];
    if (slot.owner != static_cast<int>(s) || !slot.wants_gradient) continue;
    offsets[s] = bytes;
    bytes += (slot.shape.count() * size + 63) / 64 * 64;
  }
  gradient_memory_ = ByteTensor(static_cast<size_t>(bytes));
  auto* base = static_cast<std::byte*>(gradient_memory_.view().raw());
  for (const LearnedSlot& slot : plan_->learned) {
    const int64_t offset = offsets[static_cast<size_t>(slot.owner)];
    learned_gradients_.push_back(offset < 0 ? TensorView()
                                            : TensorView(base + offset, slot.shape,
                                                         plan_->options.dtype, context_.device()));
  }
}

std::span<float> Session::LearnedGradientMemory() {
  CREMA_CHECK(plan_->options.dtype == DType::kF32);
  const TensorView memory = gradient_memory_.view();
  return {static_cast<float*>(memory.raw()), memory.bytes() / sizeof(float)};
}

// All at once: they lie one behind the other.
void Session::ZeroLearnedGradients() {
  const TensorView all = gradient_memory_.view();
  if (all.count() == 0) return;
  if (!OnGpu()) return FillWith(context_, all, 0);
  const auto floats = static_cast<int64_t>(all.bytes() / sizeof(float));
  context_.queue()->Fill(DType::kF32, floats, 0, all.raw());
}

}  // namespace crema
