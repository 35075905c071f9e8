#include "runtime/device_passes.h"

#include <algorithm>
#include <utility>

#include "plan/graph_capture_support.h"

namespace crema {

DevicePasses::DevicePasses(const Plan& plan, const ExecContext& context,
                           const SessionValues& values)
    : plan_(plan),
      context_(context),
      values_(values),
      queue_(*context.queue()),
      memory_(Shape{sizeof(Pass) / sizeof(double)}, DType::kF64, context.allocator()),
      first_captured_(FirstLayerAfterSources(plan)) {
  queue_.SetStepPlace(&pass()->step);
  if (const std::string reason = WhyNoGraphCapture(plan); !reason.empty()) Refuse(reason);
}

DevicePasses::~DevicePasses() {
  try {
    queue_.Synchronize();
  } catch (const Error&) {  // the device is lost, as an earlier call has reported
  }
}

void DevicePasses::Forward(bool captures, const std::function<void(size_t)>& run_layer) {
  LosingQueue(&queue_, [&] {
    SetStep();
    RunLayers(captures, run_layer);
    next_step_ = context_.step() + 1;
    counts_ = true;
  });
}

// The device counts passes itself, unless a pass has failed or the session has set another number.
void DevicePasses::SetStep() {
  if (!std::exchange(counts_, false) || next_step_ != context_.step()) {
    queue_.Store(context_.step() - 1, &pass()->step);
  }
}

void DevicePasses::RunLayers(bool captures, const std::function<void(size_t)>& run_layer) {
  bool begun = false;  // host sources need no pass of the device
  const auto begin = [&] {
    if (!std::exchange(begun, true)) queue_.BeginPass(&pass()->step, &pass()->loss);
  };
  for (size_t i = 0; i < first_captured_; ++i) {
    const bool source = IsHostSource(plan_.layers[i]) && !HasLoss(plan_.layers[i]);
    if (!source) begin();
    run_layer(i);
    if (!source) AddLoss(plan_.layers[i]);
  }
  const auto rest = [&, begun] {
    if (!begun) queue_.BeginPass(&pass()->step, &pass()->loss);
    for (size_t i = first_captured_; i < plan_.layers.size(); ++i) {
      run_layer(i);
      AddLoss(plan_.layers[i]);
    }
  };
  if (!captures) return rest();
  // A reference fits into std::function without an allocation.
  forward_.Run(&queue_, values_.version(), std::ref(rest));
}

void DevicePasses::Backward(bool captures, const std::function<void()>& body) {
  LosingQueue(&queue_, [&] {
    if (!captures) return body();
    backward_.Run(&queue_, values_.version(), body);
  });
}

bool DevicePasses::HasLoss(const PlannedLayer& layer) const {
  return std::ranges::any_of(layer.outputs, [this](int v) {
    return plan_.values[static_cast<size_t>(v)].loss_weight != 0;
  });
}

void DevicePasses::AddLoss(const PlannedLayer& layer) {
  for (int v : layer.outputs) {
    const PlannedValue& value = plan_.values[static_cast<size_t>(v)];
    if (value.loss_weight == 0) continue;
    const ConstTensorView data = values_.Data(v);
    queue_.AddSum(data.dtype(), data.count(), value.loss_weight, data.raw(), loss_place());
  }
}

double DevicePasses::Loss() const {
  double loss = 0;
  queue_.Download(&loss, loss_place(), sizeof(loss));
  return loss;
}

void DevicePasses::set_scale_place(const double* place) {
  if (scale_place_ != place) backward_.Forget();
  scale_place_ = place;
}

void DevicePasses::Forget() {
  forward_.Forget();
  backward_.Forget();
}

void DevicePasses::Refuse(const std::string& reason) {
  forward_.Refuse(reason);
  backward_.Refuse(reason);
}

const std::string& DevicePasses::WhyNoGraph() const {
  return forward_.reason().empty() ? backward_.reason() : forward_.reason();
}

}  // namespace crema
