// Layers that run forward again in the backward pass instead of keeping what they made.
#include "runtime/layer_error_context.h"
#include "runtime/session.h"

namespace crema {

TensorView Session::LateDataOf(int v) const {
  const PlannedValue& value = plan_->values[static_cast<size_t>(v)];
  return value.again.offset < 0 ? DataView(v, SpecOf(v)) : ViewOf(value.again, SpecOf(v));
}

void Session::BindAgain(const PlannedLayer& layer, Step* step) {
  if (!layer.recompute) return;
  step->again_inputs.clear();
  step->again_outputs.clear();
  step->again_saved.clear();
  for (int v : layer.inputs) step->again_inputs.push_back(LateDataOf(v));
  for (int v : layer.outputs) step->again_outputs.push_back(LateDataOf(v));
  for (size_t i = 0; i < step->info->saved.size(); ++i) {
    step->again_saved.push_back(
        i < layer.saved.size() ? ViewOf(layer.saved[i], step->info->saved[i]) : TensorView());
  }
}

void Session::RunAgainFor(const PlannedLayer& layer) {
  for (int n : layer.runs_again) {
    const PlannedLayer& again = plan_->layers[static_cast<size_t>(n)];
    Step& step = steps_[static_cast<size_t>(n)];
    if (step.again_epoch != shape_epoch_) {
      BindAgain(again, &step);
      step.again_epoch = shape_epoch_;
    }
    RunAgain(again, &step);
  }
}

// The step of the context is still that of the last Forward, so random layers draw the same.
void Session::RunAgain(const PlannedLayer& layer, Step* step) {
  ForwardArgs args = ForwardArgsOf(layer, step);
  args.inputs = step->again_inputs;
  args.outputs = step->again_outputs;
  args.saved = step->again_saved;
  args.statistics = {};  // updated once
  const DeviceRange range(context_.queue(), layer.name().c_str());
  WithLayerContext(layer, [&] {
    if (observer_ != nullptr) observer_->BeforeRecompute(IndexOf(layer), args);
    if (step->implementation != nullptr) {
      step->implementation->Forward(*layer.layer, args);
    } else {
      layer.layer->Forward(args);
    }
    if (observer_ != nullptr) observer_->AfterRecompute(IndexOf(layer), args);
  });
}

}  // namespace crema
