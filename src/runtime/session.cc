#include "runtime/session.h"

#include <string>
#include <utility>

#include "core/bfloat16.h"
#include "core/deferred_warnings.h"
#include "core/device_memory.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/has_larger_outputs.h"
#include "runtime/device_passes.h"
#include "runtime/error_context.h"
#include "runtime/packed_weight_cache.h"
#include "runtime/step_binder.h"

namespace crema {
namespace {

ExecContext ContextFor(const Plan& plan, ExecContext context) {
  if (context.device().type != plan.options.device.type) {
    Fail(ErrorCode::kInvalidArgument, StrCat("a plan for ", ToString(plan.options.device),
                                             " cannot run on ", ToString(context.device())));
  }
  context.LimitThreads(plan.options.threads);
  return context;
}

// Returns a key: packed weights are the same in all sessions for equal layers and implementations.
std::string PackedKey(const Plan& plan, const PlannedLayer& layer,
                      const Implementation& implementation) {
  std::string key = StrCat(layer.name(), "\n", implementation.name);
  for (const int other : layer.fusion.followers) {
    key += StrCat("\n", plan.layers[static_cast<size_t>(other)].name());
  }
  return key;
}

void CallForward(const PlannedLayer& layer, const LayerStep& step, const ForwardArgs& args) {
  if (step.implementation != nullptr) {
    step.implementation->Forward(*layer.layer, args);
  } else {
    layer.layer->Forward(args);
  }
}

void CallBackward(const PlannedLayer& layer, const LayerStep& step, const BackwardArgs& args) {
  if (step.implementation != nullptr) {
    step.implementation->Backward(*layer.layer, args);
  } else {
    layer.layer->Backward(args);
  }
}

void WriteWarnings(const Session& session, LogSink* log) {
  if (log == nullptr) return;
  const Plan& plan = session.plan();
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const auto* teller = dynamic_cast<const HasDeferredWarnings*>(session.state(i));
    if (teller == nullptr) continue;
    for (const std::string& text : teller->TakeWarnings()) {
      log->Write(Severity::kWarning, StrCat("layer \"", plan.layers[i].name(), "\" (",
                                            Phase_Name(plan.state.phase()), "): ", text));
    }
  }
}

}  // namespace

Session::Session(std::shared_ptr<const Plan> plan, std::shared_ptr<const Weights> weights,
                 ExecContext context)
    : Session(std::move(plan), std::move(weights), nullptr, std::move(context)) {}

// Two parameters share the weights: none may be moved from.
Session::Session(std::shared_ptr<const Plan> plan,
                 std::shared_ptr<Weights> weights,  // NOLINT(performance-unnecessary-value-param)
                 ExecContext context)
    : Session(std::move(plan), weights, weights, std::move(context)) {}

Session::Session(std::shared_ptr<const Plan> plan, std::shared_ptr<const Weights> weights,
                 std::shared_ptr<Weights> updated, ExecContext context)
    : plan_(std::move(plan)),
      context_(ContextFor(*plan_, std::move(context))),
      parameters_(*plan_, context_, std::move(weights), std::move(updated)),
      values_(*plan_, context_),
      steps_(std::make_unique<StepBinder>(*plan_, context_, &values_, parameters_)) {
  if (OnGpu()) PrepareGpu();
}

Session::~Session() = default;

void Session::PrepareGpu() {
  device_ = std::make_unique<DevicePasses>(*plan_, context_, values_);
  for (size_t i = device_->first_captured(); i < steps_->size(); ++i) {
    if (state(i) == nullptr) continue;
    device_->Refuse(StrCat("layer \"", plan_->layers[i].name(), "\" keeps a state on the host"));
  }
}

void Session::Reshape(const std::string& input, const Shape& shape) {
  const int v = plan_->FindFirstValue(input);
  if (v < 0) Fail(ErrorCode::kNotFound, StrCat("the net has no blob '", input, "'"));
  const PlannedValue& value = plan_->values[static_cast<size_t>(v)];
  if (plan_->layers[static_cast<size_t>(value.producer)].type->name != "Input") {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", input, "' is made by a layer; only inputs of the net can be reshaped"));
  }
  if (!values_.CanGrow()) {
    CheckFits({shape, value.spec.dtype}, value.spec, StrCat("'", input, "'"));
  }
  values_.SetShape(v, shape);
}

double Session::Forward() {
  QueueForward();
  return Loss();
}

void Session::QueueForward() {
  if (device_ == nullptr) {
    ForwardLayers(0, steps_->size() - 1);
    return;
  }
  context_.set_step(next_step_++);
  device_->Forward(observer_ == nullptr, [this](size_t layer) { ForwardLayer(layer); });
}

void Session::CheckRange(size_t first, size_t last) const {
  if (OnGpu()) Fail(ErrorCode::kUnsupported, "parts of a net run on the CPU only");
  if (first > last || last >= steps_->size()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("layers ", first, " to ", last, " of a net with ", steps_->size(), " layers"));
  }
}

double Session::ForwardLayers(size_t first, size_t last) {
  CheckRange(first, last);
  context_.set_step(next_step_++);
  loss_ = 0;
  for (size_t i = first; i <= last; ++i) {
    ForwardLayer(i);
    loss_ += LossOf(plan_->layers[i]);
  }
  return loss_;
}

void Session::UpdateShapes() {
  for (size_t i = 0; i < steps_->size(); ++i) steps_->ForwardStep(i);
}

void Session::ForwardLayer(size_t index) {
  LayerStep& step = steps_->ForwardStep(index);
  if (plan_->layers[index].forward && !step.concat_in_place) RunForward(index, &step);
}

ForwardArgs Session::ForwardArgsOf(const PlannedLayer& layer, LayerStep* step) {
  return {.context = context_,
          .phase = layer.layer->param().phase(),
          .layer_id = layer.layer_id,
          .inputs = step->forward_inputs,
          .outputs = step->forward_outputs,
          .parameters = step->parameters,
          .saved = step->saved,
          .scratch = {steps_->scratch(), step->forward_scratch},
          .state = step->state.get(),
          .statistics = step->statistics,
          .output_shapes = step->output_shapes,
          .external = step->external,
          .implementation_state = step->implementation_state.get(),
          .weights_fixed = weights_fixed_,
          .fused = layer.fusion.layers};
}

// Copies inputs that were placed in the output, but not at their position for the current shapes.
void Session::CopyInputsAway(const PlannedLayer& layer, LayerStep* step) {
  const PlannedValue& output = plan_->values[static_cast<size_t>(layer.outputs[0])];
  if (step->inputs_away.data() == nullptr) {
    const auto bytes = static_cast<size_t>(output.data.bytes);
    step->inputs_away = ByteMemory(bytes + 64 * layer.inputs.size(), context_);
  }
  std::byte* to = step->inputs_away.data();
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    const BlobSpec spec = values_.Spec(layer.inputs[i]);
    const auto bytes = static_cast<size_t>(StoredBytes(spec));
    CopyWithin(context_, to, DataOf(layer.inputs[i]).raw(), bytes);
    step->forward_inputs[i] = {to, spec.shape, StoredType(spec), context_.device()};
    to += (bytes + 63) / 64 * 64;
  }
}

void Session::RunForward(size_t index, LayerStep* step) {
  const PlannedLayer& layer = plan_->layers[index];
  if (step->info->dynamic_outputs) {
    for (size_t o = 0; o < step->output_shapes.size(); ++o) {
      step->output_shapes[o] = step->forward_outputs[o].shape();
    }
  }
  if (layer.concat_in_place == ConcatPlace::kContiguous) CopyInputsAway(layer, step);
  if (step->transfer != nullptr) step->transfer->Next(step->forward_outputs);
  const ForwardArgs args = ForwardArgsOf(layer, step);
  try {
    const DeviceRange range(context_.queue(), layer.name().c_str());
    WithLayerContext(layer, [&] {
      if (observer_ != nullptr) observer_->BeforeForward(index, args);
      CallForward(layer, *step, args);
      steps_->TakeExternalBuffers(index);
      if (step->transfer != nullptr) {
        step->transfer->Send(step->forward_outputs,
                             [&](size_t o) { return values_.Data(layer.outputs[o]).raw(); });
      }
      if (observer_ != nullptr) observer_->AfterForward(index, args);
    });
  } catch (const Error& error) {
    throw AddSampleNames(*this, index, error);
  }
  if (step->info->dynamic_outputs) TakeOutputShapes(index, step);
}

void Session::TakeOutputShapes(size_t index, LayerStep* step) {
  const PlannedLayer& layer = plan_->layers[index];
  bool any_grows = false;
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    any_grows = any_grows || step->output_shapes[o].count() > step->forward_outputs[o].count();
  }
  if (!any_grows) {
    for (size_t o = 0; o < layer.outputs.size(); ++o) {
      values_.SetShape(layer.outputs[o], step->output_shapes[o]);
    }
    return;
  }
  const std::vector<Shape> shapes = step->output_shapes;  // GrowOutputs binds both again
  const std::vector<TensorView> before = step->forward_outputs;
  const auto grows = [&](size_t o) { return shapes[o].count() > before[o].count(); };
  for (size_t o = 0; o < shapes.size(); ++o) {
    if (grows(o)) RequireGrowth(layer, o, shapes[o], before[o].shape());
  }
  steps_->GrowOutputs(index, shapes);
  for (size_t o = 0; o < shapes.size(); ++o) {
    values_.SetShape(layer.outputs[o], shapes[o]);
    if (!grows(o)) continue;
    dynamic_cast<const HasLargerOutputs&>(*layer.layer)
        .CopyOutput(o, values_.Data(layer.outputs[o]));
  }
}

void Session::RequireGrowth(const PlannedLayer& layer, size_t output, const Shape& shape,
                            const Shape& planned) const {
  CREMA_CHECK(dynamic_cast<const HasLargerOutputs*>(layer.layer.get()) != nullptr);
  if (values_.CanGrow()) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("'", layer.layer->param().top(static_cast<int>(output)), "' became ", ToString(shape),
              " during a pass, and the plan has memory for ", planned.count(),
              " elements; let the first call of its reshape give the largest shape"),
       {.layer = layer.name()});
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

double Session::Loss() const { return device_ != nullptr ? device_->Loss() : loss_; }

const double* Session::LossPlace() const {
  return device_ != nullptr ? device_->loss_place() : nullptr;
}

void Session::FixWeights() {
  weights_fixed_ = true;
  if (device_ != nullptr) device_->Forget();
}

void Session::SharePacked(PackedWeightCache* pool) {
  CREMA_CHECK(weights_fixed_);
  if (device_ != nullptr) device_->Forget();
  for (size_t i = 0; i < steps_->size(); ++i) {
    const LayerStep& step = steps_->step(i);
    auto* state = dynamic_cast<HasPackedWeights*>(step.implementation_state.get());
    if (state != nullptr)
      pool->Share(PackedKey(*plan_, plan_->layers[i], *step.implementation), state);
  }
}

void Session::set_loss_scale(double scale) {
  if (device_ != nullptr) {
    if (scale != loss_scale_) device_->ForgetBackward();
    device_->set_scale_place(nullptr);
  }
  loss_scale_ = scale;
}

void Session::set_loss_scale_place(const double* scale) {
  CREMA_CHECK(device_ != nullptr);
  device_->set_scale_place(scale);
}

std::string Session::WhyNoGraph() const {
  return device_ != nullptr ? device_->WhyNoGraph() : std::string();
}

void Session::Backward() {
  CREMA_CHECK(plan_->options.backward);
  if (device_ == nullptr) return BackwardLayers(0, steps_->size() - 1);
  device_->Backward(observer_ == nullptr, [this] {
    for (size_t i = steps_->size(); i-- > 0;) BackwardLayer(i);
  });
}

void Session::BackwardLayers(size_t first, size_t last) {
  CheckRange(first, last);
  for (size_t i = last + 1; i-- > first;) BackwardLayer(i);
}

void Session::LeaveOutputGradients() {
  for (size_t i = 0; i < steps_->size(); ++i) {
    if (plan_->layers[i].backward) StartGradients(steps_->BackwardStep(i));
  }
  leaves_output_gradients_ = true;
}

void Session::BackwardLayer(size_t index) {
  const PlannedLayer& layer = plan_->layers[index];
  if (!layer.backward) return;
  for (int n : layer.runs_again) Recompute(static_cast<size_t>(n));
  const LayerStep& step = steps_->BackwardStep(index);
  StartGradients(step);
  if (layer.info.view) return;
  if (layer.concat_in_place == ConcatPlace::kStrided && step.concat_in_place) return;
  RunBackward(index, step);
}

// The step of the context is still that of the last Forward, so random layers draw the same
// numbers.
void Session::Recompute(size_t index) {
  const PlannedLayer& layer = plan_->layers[index];
  LayerStep& step = steps_->RecomputeStep(index);
  ForwardArgs args = ForwardArgsOf(layer, &step);
  args.inputs = step.again_inputs;
  args.outputs = step.again_outputs;
  args.saved = step.again_saved;
  args.statistics = {};  // updated once
  const DeviceRange range(context_.queue(), layer.name().c_str());
  WithLayerContext(layer, [&] {
    if (observer_ != nullptr) observer_->BeforeRecompute(index, args);
    CallForward(layer, step, args);
    if (observer_ != nullptr) observer_->AfterRecompute(index, args);
  });
}

void Session::StartGradients(const LayerStep& step) {
  if (leaves_output_gradients_) return;
  const double* place = device_ != nullptr ? device_->scale_place() : nullptr;
  for (size_t s = 0; s < step.seeds.size(); ++s) {
    const TensorView& seed = step.seeds[s];
    if (place != nullptr) {
      context_.queue()->FillScaled(seed.dtype(), seed.count(), step.seed_values[s], place,
                                   seed.raw());
    } else {
      FillWith(context_, seed, static_cast<float>(double{step.seed_values[s]} * loss_scale_));
    }
  }
}

void Session::RunBackward(size_t index, const LayerStep& step) {
  const PlannedLayer& layer = plan_->layers[index];
  const DeviceRange range(context_.queue(), layer.name().c_str());
  const BackwardArgs args{.context = context_,
                          .phase = layer.layer->param().phase(),
                          .layer_id = layer.layer_id,
                          .inputs = step.backward_inputs,
                          .outputs = step.backward_outputs,
                          .output_grads = step.output_grads,
                          .input_grads = step.input_grads,
                          .parameters = step.parameters,
                          .parameter_grads = step.parameter_grads,
                          .saved = step.saved_const,
                          .scratch = {steps_->scratch(), step.backward_scratch},
                          .state = step.state.get(),
                          .implementation_state = step.implementation_state.get(),
                          .fused = layer.fusion.layers};
  WithLayerContext(layer, [&] {
    if (observer_ != nullptr) observer_->BeforeBackward(index, args);
    CallBackward(layer, step, args);
    if (observer_ != nullptr) observer_->AfterBackward(index, args);
  });
}

bool Session::IsPlain(int v) const {
  return plan_->values[static_cast<size_t>(v)].spec.format == MemoryFormat{};
}

ConstTensorView Session::Data(const std::string& name) const {
  const int v = plan_->FindValue(name);
  if (v < 0 || !IsPlain(v)) return {};
  const ConstTensorView view = DataOf(v);
  return view.raw() == nullptr ? ConstTensorView() : view;
}

TensorView Session::MutableData(const std::string& name) {
  const int v = plan_->FindFirstValue(name);
  if (v < 0 || !IsPlain(v)) return {};
  const TensorView view = values_.Data(v);
  return view.raw() == nullptr ? TensorView() : view;
}

ConstTensorView Session::Gradient(const std::string& name) const {
  const int v = plan_->FindFirstValue(name);
  return v < 0 || !IsPlain(v) ? ConstTensorView() : values_.Gradient(v);
}

void Session::Write(const TensorView& to, const void* from) const {
  CREMA_CHECK(to.image_stride() == 0);
  Upload(context_, to.raw(), from, to.bytes());
}

void Session::Read(const ConstTensorView& from, void* to) const {
  CREMA_CHECK(from.image_stride() == 0);
  Download(context_, to, from.raw(), from.bytes());
}

const LayerSessionState* Session::state(size_t layer) const {
  return steps_->step(layer).state.get();
}

LayerSessionState* Session::MutableState(const std::string& layer) {
  for (size_t i = 0; i < steps_->size(); ++i) {
    if (plan_->layers[i].name() == layer) return steps_->step(i).state.get();
  }
  return nullptr;
}

void Session::SaveState(const std::string& net, SolverState* saved) const {
  for (size_t i = 0; i < steps_->size(); ++i) {
    if (state(i) == nullptr) continue;
    LayerState* layer = saved->add_layer_state();
    layer->set_net(net);
    layer->set_layer(plan_->layers[i].name());
    state(i)->Save(layer);
  }
}

void Session::RestoreState(const std::string& net, const SolverState& saved) {
  for (const LayerState& layer : saved.layer_state()) {
    if (layer.net() != net) continue;
    for (size_t i = 0; i < steps_->size(); ++i) {
      if (state(i) == nullptr || plan_->layers[i].name() != layer.layer()) continue;
      WithLayerContext(plan_->layers[i], [&] { steps_->step(i).state->Restore(layer); });
    }
  }
}

void QueueForwardAndWarn(Session* session, LogSink* log) {
  try {
    session->QueueForward();
  } catch (...) {
    WriteWarnings(*session, log);
    throw;
  }
  WriteWarnings(*session, log);
}

double ForwardAndWarn(Session* session, LogSink* log) {
  QueueForwardAndWarn(session, log);
  return session->Loss();
}

}  // namespace crema
