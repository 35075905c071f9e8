// The forward pass on a GPU: nothing in it waits, and from the layer behind the last source on it
// is queued as one where that can be.
#include "runtime/session_gpu.h"

#include <algorithm>
#include <utility>

#include "core/strings.h"
#include "plan/graph_capture_support.h"

namespace crema {

// Work that still runs may use all that goes now.
Session::~Session() {
  if (!OnGpu()) return;
  try {
    context_.queue()->Synchronize();
  } catch (const Error&) {  // it is lost; who used it was told
  }
}

void Session::PrepareGpu() {
  on_gpu_ = std::make_unique<OnGpuState>();
  on_gpu_->memory =
      Tensor(Shape{sizeof(OnGpuState::Pass) / sizeof(double)}, DType::kF64, context_.allocator());
  context_.queue()->SetStepPlace(&on_gpu_->pass()->step);
  on_gpu_->first_kept = FirstLayerBehindSources(*plan_);
  RefuseGraphs();
}

void Session::RefuseGraphs() {
  const auto refuse = [this](const std::string& reason) {
    on_gpu_->forward.Refuse(reason);
    on_gpu_->backward.Refuse(reason);
  };
  if (const std::string reason = WhyNoGraphCapture(*plan_); !reason.empty()) refuse(reason);
  for (size_t i = on_gpu_->first_kept; i < steps_.size(); ++i) {
    if (steps_[i].state == nullptr) continue;
    refuse(StrCat("layer \"", plan_->layers[i].name(), "\" keeps a state on the host"));
  }
}

void Session::BeginPassOnGpu() {
  OnGpuState::Pass* pass = on_gpu_->pass();
  context_.queue()->BeginPass(&pass->step, &pass->loss);
}

void Session::ForwardOnGpu() {
  OnGpuState& gpu = *on_gpu_;
  DeviceQueue& queue = *context_.queue();
  const uint64_t step = context_.step();
  if (!std::exchange(gpu.counts, false) || gpu.next_step != step) {
    queue.Store(step - 1, &gpu.pass()->step);
  }
  bool begun = false;  // sources run on the host, and need no pass of the device
  for (size_t i = 0; i < gpu.first_kept; ++i) {
    const bool source = steps_[i].transfer != nullptr && !HasLoss(plan_->layers[i]);
    if (!source && !std::exchange(begun, true)) BeginPassOnGpu();
    ForwardLayer(i);
    if (!source) AddLossOnGpu(plan_->layers[i]);
  }
  const auto rest = [this, begun] {
    if (!begun) BeginPassOnGpu();
    for (size_t i = on_gpu_->first_kept; i < steps_.size(); ++i) {
      ForwardLayer(i);
      AddLossOnGpu(plan_->layers[i]);
    }
  };
  if (observer_ != nullptr) {
    rest();
  } else {
    gpu.forward.Run(&queue, shape_epoch_, rest);
  }
  gpu.next_step = step + 1;
  gpu.counts = true;
}

bool Session::HasLoss(const PlannedLayer& layer) const {
  return std::ranges::any_of(layer.outputs, [this](int v) {
    return plan_->values[static_cast<size_t>(v)].loss_weight != 0;
  });
}

void Session::AddLossOnGpu(const PlannedLayer& layer) {
  for (int v : layer.outputs) {
    const PlannedValue& value = plan_->values[static_cast<size_t>(v)];
    if (value.loss_weight == 0) continue;
    const ConstTensorView data = DataOf(v);
    context_.queue()->AddSum(data.dtype(), data.count(), value.loss_weight, data.raw(),
                             &on_gpu_->pass()->loss);
  }
}

double Session::Loss() const {
  if (!OnGpu()) return loss_;
  double loss = 0;
  context_.queue()->Download(&loss, LossPlace(), sizeof(loss));
  return loss;
}

const double* Session::LossPlace() const { return OnGpu() ? &on_gpu_->pass()->loss : nullptr; }

void Session::ForgetGraphs() {
  if (!OnGpu()) return;
  on_gpu_->forward.Forget();
  on_gpu_->backward.Forget();
}

void Session::FixWeights() {
  weights_fixed_ = true;
  ForgetGraphs();
}

void Session::set_loss_scale(double scale) {
  if (OnGpu() && (scale != loss_scale_ || on_gpu_->scale_place != nullptr)) {
    on_gpu_->scale_place = nullptr;
    on_gpu_->backward.Forget();
  }
  loss_scale_ = scale;
}

void Session::set_loss_scale_place(const double* scale) {
  CREMA_CHECK(OnGpu());
  if (on_gpu_->scale_place == scale) return;
  on_gpu_->scale_place = scale;
  on_gpu_->backward.Forget();
}

std::string Session::WhyNoGraph() const {
  if (!OnGpu()) return "";
  const std::string& forward = on_gpu_->forward.reason();
  return forward.empty() ? on_gpu_->backward.reason() : forward;
}

}  // namespace crema
