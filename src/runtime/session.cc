#include "runtime/session.h"

#include <algorithm>
#include <utility>

#include "core/bfloat16.h"
#include "core/device_memory.h"
#include "core/strings.h"
#include "runtime/error_context.h"
#include "runtime/layer_error_context.h"
#include "runtime/session_gpu.h"

namespace crema {
namespace {

bool At(const std::vector<bool>& flags, size_t i) { return i < flags.size() && flags[i]; }

}  // namespace

Session::Session(std::shared_ptr<const Plan> plan, std::shared_ptr<const Weights> weights,
                 ExecContext context)
    : Session(std::move(plan), std::const_pointer_cast<Weights>(std::move(weights)),
              std::move(context), Statistics::kFixed) {}

Session::Session(std::shared_ptr<const Plan> plan, std::shared_ptr<Weights> weights,
                 ExecContext context)
    : Session(std::move(plan), std::move(weights), std::move(context), Statistics::kUpdated) {}

Session::Session(std::shared_ptr<const Plan> plan, std::shared_ptr<Weights> weights,
                 ExecContext context, Statistics statistics)
    : plan_(std::move(plan)), weights_(weights), context_(std::move(context)) {
  if (statistics == Statistics::kUpdated) mutable_weights_ = std::move(weights);
  CREMA_CHECK(weights_->size() == plan_->learned.size());
  if (context_.device().type != plan_->options.device.type) {
    Fail(ErrorCode::kInvalidArgument, StrCat("a plan for ", ToString(plan_->options.device),
                                             " cannot run on ", ToString(context_.device())));
  }
  context_.LimitThreads(plan_->options.threads);
  arena_ = ByteTensor(static_cast<size_t>(plan_->arena_bytes));
  scratch_ = ByteTensor(static_cast<size_t>(plan_->scratch_bytes));
  TakeWeights();
  AllocateLearnedGradients();
  for (const PlannedValue& value : plan_->values) shapes_.push_back(value.spec.shape);
  FindBufferReaders();
  steps_.resize(plan_->layers.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const PlannedLayer& layer = plan_->layers[i];
    Step& step = steps_[i];
    step.info = &layer.info;
    step.implementation = layer.implementation;
    step.forward_scratch = static_cast<size_t>(layer.forward_scratch);
    step.backward_scratch = static_cast<size_t>(layer.backward_scratch);
    BindForward(layer, &step);
    BindAgain(layer, &step);
    if (layer.backward) BindBackward(layer, &step);
    step.state = layer.layer->MakeState(context_, layer.layer->param().phase());
    MakeImplementationState(layer, &step);
  }
  if (OnGpu()) PrepareGpu();
}

Tensor Session::ByteTensor(size_t bytes) const {
  // Element counts of one shape end at 2^31-1, arenas do not: count in kibibytes.
  const auto rows = static_cast<int64_t>((bytes + 1023) / 1024);
  return Tensor(Shape{rows, 1024 / 8}, DType::kF64, context_.allocator());
}

TensorView Session::ViewOf(const ArenaSlot& slot, const BlobSpec& spec) const {
  if (slot.offset < 0) return {};
  if (slot.buffer_owner >= 0) {
    return {external_buffers_[static_cast<size_t>(slot.buffer_owner)], spec.shape, StoredType(spec),
            context_.device()};
  }
  auto* base = static_cast<std::byte*>(const_cast<Tensor&>(arena_).view().raw());
  return {base + slot.offset, spec.shape, StoredType(spec), context_.device()};
}

BlobSpec Session::SpecOf(int v) const {
  const auto index = static_cast<size_t>(v);
  const BlobSpec& planned = plan_->values[index].spec;
  return {shapes_[index], planned.dtype, planned.format};
}

void Session::BindForward(const PlannedLayer& layer, Step* step) {
  step->forward_inputs.clear();
  step->forward_outputs.clear();
  step->output_shapes.clear();
  step->external.assign(layer.info.external_output.empty() ? 0 : layer.outputs.size(), nullptr);
  step->learned.clear();
  step->statistics.clear();
  step->saved.clear();
  for (int v : layer.inputs) step->forward_inputs.push_back(DataOf(v));
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    const PlannedValue& value = plan_->values[static_cast<size_t>(layer.outputs[o])];
    // A source has the extents that Reshape gave it, but one that chooses them may grow again.
    const bool reshaped = layer.inputs.empty() && !step->info->dynamic_outputs;
    const bool planned =
        reshaped || o >= step->info->outputs.size();  // or handed on by implementations
    BlobSpec spec = planned ? SpecOf(layer.outputs[o]) : step->info->outputs[o];
    spec.format = value.spec.format;
    step->forward_outputs.push_back(DataView(layer.outputs[o], spec));
    step->output_shapes.push_back(spec.shape);
  }
  if (IsSourceOfGpu(layer)) Stage(step);
  for (size_t i = 0; i < layer.learned.size(); ++i) {
    const auto slot = static_cast<size_t>(layer.learned[i]);
    const TensorView blob = LearnedBlob(slot);
    // A blob that is shared PERMISSIVEly has this layer's shape here.
    const Shape& shape = plan_->learned[slot].shape;
    step->learned.emplace_back(blob.raw(), shape, blob.dtype(), blob.device());
    const bool updated = layer.info.learned[i].statistic && mutable_weights_ != nullptr;
    step->statistics.push_back(updated ? TensorView(blob.raw(), shape, blob.dtype(), blob.device())
                                       : TensorView());
  }
  for (int fused : layer.fused) {
    for (int slot : plan_->layers[static_cast<size_t>(fused)].learned) {
      step->learned.push_back(LearnedBlob(static_cast<size_t>(slot)));
    }
  }
  try {
    step->concat_in_place = IsConcatInPlace(layer);
  } catch (...) {
    // So that the next pass looks again, and finds the same.
    std::ranges::fill(step->forward_inputs, ConstTensorView());
    throw;
  }
  for (size_t i = 0; i < step->info->saved.size(); ++i) {
    const bool kept = i < layer.saved.size() && !layer.recompute;
    step->saved.push_back(kept ? ViewOf(layer.saved[i], step->info->saved[i]) : TensorView());
  }
  CheckStrides(layer, *step, false);
}

void Session::BindBackward(const PlannedLayer& layer, Step* step) {
  step->backward_inputs.clear();
  step->backward_outputs.clear();
  step->output_grads.clear();
  step->input_grads.clear();
  step->learned_grads.clear();
  step->seeds.clear();
  step->seed_values.clear();
  const auto unread = [&](const BlobSpec& spec) {
    return ConstTensorView(nullptr, spec.shape, StoredType(spec), context_.device());
  };
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    const BlobSpec spec = SpecOf(layer.inputs[i]);
    const bool reads = At(layer.info.backward_reads_input, i);
    step->backward_inputs.push_back(reads ? ConstTensorView(LateDataOf(layer.inputs[i]))
                                          : unread(spec));
    step->input_grads.push_back(layer.to_input[i] ? GradientView(layer.inputs[i], spec)
                                                  : TensorView());
  }
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    const PlannedValue& value = plan_->values[static_cast<size_t>(layer.outputs[o])];
    const BlobSpec spec = SpecOf(layer.outputs[o]);
    const bool reads = At(layer.info.backward_reads_output, o);
    step->backward_outputs.push_back(reads ? ConstTensorView(LateDataOf(layer.outputs[o]))
                                           : unread(spec));
    const TensorView gradient = GradientView(layer.outputs[o], spec);
    const bool seeded = !value.gradient_written;
    const bool split = seeded && layer.info.share && value.loss_weight == 0;  // adds what is there
    if (split || !value.has_gradient) {
      step->output_grads.emplace_back();
      continue;
    }
    step->output_grads.push_back(gradient);
    if (seeded) {
      step->seeds.push_back(gradient);
      step->seed_values.push_back(value.loss_weight);
    }
  }
  for (size_t i = 0; i < layer.learned.size(); ++i) {
    step->learned_grads.push_back(layer.to_learned[i]
                                      ? learned_gradients_[static_cast<size_t>(layer.learned[i])]
                                      : TensorView());
  }
  for (int fused : layer.fused) {
    const PlannedLayer& other = plan_->layers[static_cast<size_t>(fused)];
    for (size_t i = 0; i < other.learned.size(); ++i) {
      step->learned_grads.push_back(other.to_learned[i]
                                        ? learned_gradients_[static_cast<size_t>(other.learned[i])]
                                        : TensorView());
    }
  }
  const std::vector<TensorView>& saved = layer.recompute ? step->again_saved : step->saved;
  step->saved_const.assign(saved.begin(), saved.end());
  CheckStrides(layer, *step, true);
}

double Session::Forward() {
  QueueForward();
  return Loss();
}

void Session::QueueForward() {
  context_.set_step(next_step_++);
  if (OnGpu()) return LosingQueue(context_.queue(), [this] { ForwardOnGpu(); });
  loss_ = 0;
  for (size_t i = 0; i < steps_.size(); ++i) {
    ForwardLayer(i);
    loss_ += LossOf(plan_->layers[i]);
  }
}

void Session::ForwardLayer(size_t index) {
  const PlannedLayer& layer = plan_->layers[index];
  Step& step = steps_[index];
  if (step.forward_epoch != shape_epoch_) Refit(layer, &step);
  if (layer.forward && !step.concat_in_place) RunForward(layer, &step);
}

ForwardArgs Session::ForwardArgsOf(const PlannedLayer& layer, Step* step) {
  auto* scratch = static_cast<std::byte*>(scratch_.view().raw());
  return {.context = context_,
          .phase = layer.layer->param().phase(),
          .layer_id = layer.layer_id,
          .inputs = step->forward_inputs,
          .outputs = step->forward_outputs,
          .learned = step->learned,
          .saved = step->saved,
          .scratch = {scratch, step->forward_scratch},
          .state = step->state.get(),
          .statistics = step->statistics,
          .output_shapes = step->output_shapes,
          .external = step->external,
          .implementation_state = step->implementation_state.get(),
          .weights_fixed = weights_fixed_};
}

// Inputs that lie in the output, at places that suit other extents only.
void Session::CopyInputsAway(const PlannedLayer& layer, Step* step) {
  const PlannedValue& output = plan_->values[static_cast<size_t>(layer.outputs[0])];
  if (step->inputs_away.shape().axes() == 0) {
    const auto bytes = static_cast<size_t>(output.data.bytes);
    step->inputs_away = ByteTensor(bytes + 64 * layer.inputs.size());
  }
  auto* to = static_cast<std::byte*>(step->inputs_away.view().raw());
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    const BlobSpec spec = SpecOf(layer.inputs[i]);
    const auto bytes = static_cast<size_t>(StoredBytes(spec));
    CopyWithin(context_, to, DataOf(layer.inputs[i]).raw(), bytes);
    step->forward_inputs[i] = {to, spec.shape, StoredType(spec), context_.device()};
    to += (bytes + 63) / 64 * 64;
  }
}

void Session::RunForward(const PlannedLayer& layer, Step* step) {
  if (step->info->dynamic_outputs) {
    for (size_t o = 0; o < step->output_shapes.size(); ++o) {
      step->output_shapes[o] = step->forward_outputs[o].shape();
    }
  }
  if (layer.concat_in_place) CopyInputsAway(layer, step);
  if (step->transfer != nullptr) step->transfer->Next(step->forward_outputs);
  const ForwardArgs args = ForwardArgsOf(layer, step);
  const size_t index = IndexOf(layer);
  try {
    const DeviceRange range(context_.queue(), layer.name().c_str());
    WithLayerContext(layer, [&] {
      if (observer_ != nullptr) observer_->BeforeForward(index, args);
      if (step->implementation != nullptr) {
        step->implementation->Forward(*layer.layer, args);
      } else {
        layer.layer->Forward(args);
      }
      TakeExternalBuffers(index);
      if (step->transfer != nullptr) SendStaged(layer, *step);
      if (observer_ != nullptr) observer_->AfterForward(index, args);
    });
  } catch (const Error& error) {
    throw AddSampleNames(*this, index, error);
  }
  if (step->info->dynamic_outputs) TakeDynamicShapes(layer, *step);
}

double Session::LossOf(const PlannedLayer& layer) const {
  double loss = 0;
  for (int v : layer.outputs) {
    const PlannedValue& value = plan_->values[static_cast<size_t>(v)];
    if (value.loss_weight == 0) continue;
    const ConstTensorView data = DataOf(v);
    DispatchFloat(data.dtype(), [&]<typename T>(T) {
      double sum = 0;
      for (T element : data.span<T>()) sum += element;
      loss += value.loss_weight * sum;
    });
  }
  return loss;
}

void Session::Backward() {
  CREMA_CHECK(plan_->options.backward);
  const auto all = [this] {
    for (size_t i = steps_.size(); i-- > 0;) BackwardLayer(i);
  };
  if (!OnGpu()) return all();
  LosingQueue(context_.queue(), [&] {
    if (observer_ != nullptr) return all();
    on_gpu_->backward.Run(context_.queue(), shape_epoch_, all);
  });
}

void Session::BackwardLayer(size_t index) {
  const PlannedLayer& layer = plan_->layers[index];
  if (!layer.backward) return;
  RunAgainFor(layer);
  Step& step = steps_[index];
  if (step.backward_epoch != shape_epoch_) {
    BindBackward(layer, &step);
    step.backward_epoch = shape_epoch_;
  }
  RunBackward(layer, step);
}

void Session::RunBackward(const PlannedLayer& layer, const Step& step) {
  const DeviceRange range(context_.queue(), layer.name().c_str());
  for (size_t s = 0; s < step.seeds.size(); ++s) {
    const double* place = OnGpu() ? on_gpu_->scale_place : nullptr;
    const TensorView& seed = step.seeds[s];
    if (place != nullptr) {
      context_.queue()->FillScaled(seed.dtype(), seed.count(), step.seed_values[s], place,
                                   seed.raw());
    } else {
      FillWith(context_, seed, static_cast<float>(double{step.seed_values[s]} * loss_scale_));
    }
  }
  if (layer.info.view || (layer.strided_concat_in_place && step.concat_in_place)) return;
  auto* scratch = static_cast<std::byte*>(scratch_.view().raw());
  const BackwardArgs args{.context = context_,
                          .phase = layer.layer->param().phase(),
                          .layer_id = layer.layer_id,
                          .inputs = step.backward_inputs,
                          .outputs = step.backward_outputs,
                          .output_grads = step.output_grads,
                          .input_grads = step.input_grads,
                          .learned = step.learned,
                          .learned_grads = step.learned_grads,
                          .saved = step.saved_const,
                          .scratch = {scratch, step.backward_scratch},
                          .state = step.state.get(),
                          .implementation_state = step.implementation_state.get()};
  WithLayerContext(layer, [&] {
    if (observer_ != nullptr) observer_->BeforeBackward(IndexOf(layer), args);
    if (step.implementation != nullptr) {
      step.implementation->Backward(*layer.layer, args);
    } else {
      layer.layer->Backward(args);
    }
    if (observer_ != nullptr) observer_->AfterBackward(IndexOf(layer), args);
  });
}

ConstTensorView Session::DataOf(int v) const { return DataView(v, SpecOf(v)); }

ConstTensorView Session::Data(const std::string& name) const {
  const int v = plan_->FindValue(name);
  if (v < 0 || IsBlocked(v)) return {};
  const ConstTensorView view = DataOf(v);
  return view.raw() == nullptr ? ConstTensorView() : view;
}

TensorView Session::MutableData(const std::string& name) {
  const int v = plan_->FindFirstValue(name);
  if (v < 0) return {};
  if (IsBlocked(v)) return {};
  const TensorView view = DataView(v, SpecOf(v));
  return view.raw() == nullptr ? TensorView() : view;
}

ConstTensorView Session::Gradient(const std::string& name) const {
  const int v = plan_->FindFirstValue(name);
  if (v < 0 || IsBlocked(v)) return {};
  return GradientView(v, SpecOf(v));
}

LayerSessionState* Session::MutableState(const std::string& layer) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (plan_->layers[i].name() == layer) return steps_[i].state.get();
  }
  return nullptr;
}

void Session::SaveState(const std::string& net, SolverState* state) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (steps_[i].state == nullptr) continue;
    LayerState* saved = state->add_layer_state();
    saved->set_net(net);
    saved->set_layer(plan_->layers[i].name());
    steps_[i].state->Save(saved);
  }
}

void Session::RestoreState(const std::string& net, const SolverState& state) {
  for (const LayerState& saved : state.layer_state()) {
    if (saved.net() != net) continue;
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].state != nullptr && plan_->layers[i].name() == saved.layer()) {
        WithLayerContext(plan_->layers[i], [&] { steps_[i].state->Restore(saved); });
      }
    }
  }
}

}  // namespace crema
