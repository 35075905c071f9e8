#include "runtime/source_transfer.h"

namespace crema {
namespace {

void Grow(std::span<const TensorView> wanted, Allocator& memory, std::vector<Tensor>* tensors) {
  tensors->resize(wanted.size());
  for (size_t o = 0; o < wanted.size(); ++o) {
    Tensor& tensor = (*tensors)[o];
    if (!tensor.view().empty() && tensor.view().bytes() >= wanted[o].bytes()) continue;
    tensor = Tensor(wanted[o].shape(), wanted[o].dtype(), memory);
  }
}

}  // namespace

void SourceTransfer::Reserve(std::span<const TensorView> outputs) {
  DeviceQueue& queue = *context_.queue();
  for (Place& place : places_) {
    if (place.sent == nullptr) place.sent = queue.MakeEvent(false);
    if (!place.sent->Passed()) place.sent->Wait();  // its memory may be freed now
    Grow(outputs, queue.HostMemory(), &place.outputs);
  }
  if (taken_ == nullptr) taken_ = queue.MakeEvent(false);
  if (!taken_->Passed()) taken_->Wait();
  Grow(outputs, context_.allocator(), &arrived_);
}

void SourceTransfer::Next(std::span<TensorView> outputs) {
  place_ = (place_ + 1) % kPlaces;
  Place& place = places_[place_];
  if (!place.sent->Passed()) place.sent->Wait();
  for (size_t o = 0; o < outputs.size(); ++o) {
    outputs[o] = {place.outputs[o].view().raw(), outputs[o].shape(), outputs[o].dtype()};
  }
}

void SourceTransfer::Send(std::span<const TensorView> outputs,
                          const std::function<void*(size_t)>& place_of) {
  DeviceQueue& queue = *context_.queue();
  Place& place = places_[place_];
  taken_->StreamWait(DeviceStream::kTransfer);
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].bytes() == 0) continue;
    queue.CopyToDeviceAsync(DeviceStream::kTransfer, arrived_[o].view().raw(), outputs[o].raw(),
                            outputs[o].bytes());
  }
  place.sent->Record(DeviceStream::kTransfer);
  place.sent->StreamWait(DeviceStream::kCompute);
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].bytes() == 0) continue;
    queue.Copy(place_of(o), arrived_[o].view().raw(), outputs[o].bytes());
  }
  taken_->Record(DeviceStream::kCompute);
}

}  // namespace crema
