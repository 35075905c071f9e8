// What a session on a GPU does besides: its weights are copies, and sources run on the host.
#include "core/device_memory.h"
#include "runtime/session.h"

namespace crema {

void Session::Write(const TensorView& to, const void* from) const {
  CREMA_CHECK(to.image_stride() == 0);
  Upload(context_, to.raw(), from, to.bytes());
}

void Session::Read(const ConstTensorView& from, void* to) const {
  CREMA_CHECK(from.image_stride() == 0);
  Download(context_, to, from.raw(), from.bytes());
}

void Session::TakeWeights() {
  if (!OnGpu()) return;
  device_weights_.resize(plan_->learned.size());
  for (size_t s = 0; s < plan_->learned.size(); ++s) {
    if (plan_->learned[s].owner != static_cast<int>(s)) continue;
    const ConstTensorView blob = weights_->blob(s);
    Tensor& copy = device_weights_[s];
    if (copy.view().empty()) copy = Tensor(blob.shape(), blob.dtype(), context_.allocator());
    Write(copy.view(), blob.raw());
  }
}

void Session::ReturnStatistics() {
  if (!OnGpu() || mutable_weights_ == nullptr) return;
  for (const PlannedLayer& layer : plan_->layers) {
    for (size_t i = 0; i < layer.learned.size(); ++i) {
      if (!layer.info.learned[i].statistic) continue;
      const auto slot = static_cast<size_t>(layer.learned[i]);
      Read(LearnedBlob(slot), mutable_weights_->blob(slot).raw());
    }
  }
}

void Session::ReturnWeights() {
  if (!OnGpu()) return;
  CREMA_CHECK(mutable_weights_ != nullptr);
  for (size_t s = 0; s < plan_->learned.size(); ++s) {
    if (plan_->learned[s].owner != static_cast<int>(s)) continue;
    Read(LearnedBlob(s), mutable_weights_->blob(s).raw());
  }
}

TensorView Session::LearnedBlob(size_t slot) const {
  if (OnGpu()) {
    const auto owner = static_cast<size_t>(plan_->learned[slot].owner);
    return const_cast<Tensor&>(device_weights_[owner]).view();
  }
  const ConstTensorView blob = weights_->blob(slot);
  return {const_cast<void*>(blob.raw()), blob.shape(), blob.dtype(), blob.device()};
}

bool Session::IsSourceOfGpu(const PlannedLayer& layer) const {
  return OnGpu() && layer.implementation == nullptr && layer.inputs.empty() && layer.forward &&
         layer.type->name != "Input";  // its memory is set from outside
}

// Extents may change in each pass.
void Session::Stage(Step* step) const {
  if (step->transfer == nullptr) step->transfer = std::make_unique<SourceTransfer>(context_);
  step->transfer->Reserve(step->forward_outputs);
}

void Session::SendStaged(const PlannedLayer& layer, const Step& step) const {
  step.transfer->Send(step.forward_outputs, [&](size_t o) {
    return ViewOf(plan_->values[static_cast<size_t>(layer.outputs[o])].data,
                  SpecOf(layer.outputs[o]))
        .raw();
  });
}

}  // namespace crema
