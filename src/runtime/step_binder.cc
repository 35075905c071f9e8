#include "runtime/step_binder.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/device_memory.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "plan/graph_capture_support.h"
#include "plan/layer_query.h"
#include "plan/passes/memory_formats.h"
#include "plan/tunes_engines.h"
#include "runtime/error_context.h"

namespace crema {
namespace {

constexpr uint64_t kUnbound = ~uint64_t{0};  // never a valid version

bool At(const std::vector<bool>& flags, size_t i) { return i < flags.size() && flags[i]; }

void GiveTimer(const PlanOptions& options, ImplementationState* state) {
  auto* tunes = dynamic_cast<TunesEngines*>(state);
  if (tunes != nullptr && !options.deterministic) tunes->UseTimer(options.implementation_timer);
}

// Returns true if the implementation takes the layouts that its inputs and outputs have.
bool Fits(const Implementation& implementation, const OpDesc& query,
          std::span<const BlobSpec> outputs) {
  return implementation.Supports(query).yes &&
         FitsFormats(implementation, query.info, query.context.inputs, outputs);
}

const Implementation* FindOther(const PlannedLayer& layer, const OpDesc& query,
                                std::span<const BlobSpec> outputs, const PlanOptions& options) {
  for (const ImplementationPtr& implementation : layer.type->implementations) {
    if (MayUse(*implementation, *layer.layer, options) && Fits(*implementation, query, outputs))
      return implementation.get();
  }
  FailInputs(*layer.layer,
             StrCat("no implementation takes these inputs in the format ",
                    ToString(query.context.inputs[0].format), "; plan a net of these shapes"));
}

// Fused layers add without broadcasting.
void CheckAdded(const PlannedLayer& layer, const Shape& added, const Shape& output) {
  if (added == output) return;
  const auto adds = [](const Layer* fused) { return fused->param().bottom_size() > 1; };
  FailInputs(**std::ranges::find_if(layer.fusion.layers, adds),
             StrCat("all inputs must have one shape, but two of them have ", ToString(output),
                    " and ", ToString(added)));
}

// Only such implementations support tensors that are not dense: output 0 and its gradient.
bool TakesStrides(const PlannedLayer& layer, const LayerStep& step) {
  return step.implementation != nullptr && step.implementation->strided_output &&
         layer.outputs.size() == 1;
}

template <typename View>
bool AreDense(const std::vector<View>& views) {
  return std::ranges::all_of(views, [](const View& v) { return v.image_stride() == 0; });
}

void CheckForwardStrides(const PlannedLayer& layer, const LayerStep& step) {
  if (!layer.forward || step.concat_in_place) return;
  CREMA_CHECK(AreDense(step.forward_inputs) &&
              (TakesStrides(layer, step) || AreDense(step.forward_outputs)));
}

void CheckBackwardStrides(const PlannedLayer& layer, const LayerStep& step) {
  if (layer.info.view || (layer.concat_in_place == ConcatPlace::kStrided && step.concat_in_place))
    return;
  CREMA_CHECK(AreDense(step.backward_inputs) && AreDense(step.input_grads));
  CREMA_CHECK(TakesStrides(layer, step) ||
              (AreDense(step.backward_outputs) && AreDense(step.output_grads)));
}

void Grow(std::span<const TensorView> wanted, Allocator& memory, std::vector<Tensor>* tensors) {
  tensors->resize(wanted.size());
  for (size_t o = 0; o < wanted.size(); ++o) {
    Tensor& tensor = (*tensors)[o];
    if (!tensor.view().empty() && tensor.view().bytes() >= wanted[o].bytes()) continue;
    tensor = Tensor(wanted[o].shape(), wanted[o].dtype(), memory);
  }
}

}  // namespace

StepBinder::StepBinder(const Plan& plan, const ExecContext& context, SessionValues* values,
                       const SessionParameters& parameters)
    : plan_(plan),
      context_(context),
      values_(*values),
      parameters_(parameters),
      scratch_(static_cast<size_t>(plan.scratch_bytes), context) {
  FindBufferReaders();
  for (const PlannedLayer& layer : plan.layers) steps_.push_back(MakeStep(layer));
}

LayerStep StepBinder::MakeStep(const PlannedLayer& layer) {
  LayerStep step;
  step.info = &layer.info;
  step.implementation = layer.implementation;
  step.forward_scratch = layer.needs.forward_scratch;
  step.backward_scratch = layer.needs.backward_scratch;
  const bool on_gpu = context_.queue() != nullptr;
  if (on_gpu && IsHostSource(layer)) step.transfer = std::make_unique<SourceTransfer>(context_);
  BindForward(layer, &step);
  if (layer.recompute) BindRecompute(layer, &step);
  if (layer.backward) BindBackward(layer, &step);
  step.state = layer.layer->MakeState(context_, layer.layer->param().phase());
  if (layer.fits) MakeImplementationState(layer, &step);
  return step;
}

LayerStep& StepBinder::ForwardStep(size_t index) {
  const PlannedLayer& layer = plan_.layers[index];
  LayerStep& step = steps_[index];
  if (step.forward_version == values_.version()) return step;
  bool same = true, moved = false;
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    const ConstTensorView now = values_.Data(layer.inputs[i]);
    same = same && step.forward_inputs[i].shape() == now.shape();
    moved = moved || step.forward_inputs[i].raw() != now.raw();
  }
  if (layer.inputs.empty() || (same && moved && values_.CanGrow())) {
    BindForward(layer, &step);
  } else if (!same) {
    // If inference throws halfway, the next pass infers again for any shapes.
    std::ranges::fill(step.forward_inputs, ConstTensorView());
    WithLayerContext(layer, [&] { InferAgain(layer, &step); });
  }
  step.forward_version = values_.version();
  return step;
}

LayerStep& StepBinder::RecomputeStep(size_t index) {
  LayerStep& step = steps_[index];
  if (step.recompute_version != values_.version()) {
    BindRecompute(plan_.layers[index], &step);
    step.recompute_version = values_.version();
  }
  return step;
}

LayerStep& StepBinder::BackwardStep(size_t index) {
  LayerStep& step = steps_[index];
  if (step.backward_version != values_.version()) {
    BindBackward(plan_.layers[index], &step);
    step.backward_version = values_.version();
  }
  return step;
}

void StepBinder::BindForward(const PlannedLayer& layer, LayerStep* step) {
  step->forward_inputs.clear();
  for (int v : layer.inputs) step->forward_inputs.push_back(values_.Data(v));
  BindOutputs(layer, step);
  if (step->transfer != nullptr) step->transfer->Reserve(step->forward_outputs);
  BindParameters(layer, step);
  try {
    step->concat_in_place = IsConcatInPlace(layer);
  } catch (...) {
    // So that the next pass compares again, and finds no change.
    std::ranges::fill(step->forward_inputs, ConstTensorView());
    throw;
  }
  step->saved.clear();
  for (size_t i = 0; i < step->info->saved.size(); ++i) {
    const bool kept = i < layer.saved.size() && !layer.recompute;
    step->saved.push_back(kept ? values_.View(layer.saved[i], step->info->saved[i]) : TensorView());
  }
  CheckForwardStrides(layer, *step);
}

void StepBinder::BindOutputs(const PlannedLayer& layer, LayerStep* step) {
  step->forward_outputs.clear();
  step->output_shapes.clear();
  step->external.assign(layer.info.external_output.empty() ? 0 : layer.outputs.size(), nullptr);
  // A source has the shapes that Session::Reshape set, unless it chooses them itself and they may
  // grow again.
  const bool reshaped = layer.inputs.empty() && !step->info->dynamic_outputs;
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    const int v = layer.outputs[o];
    BlobSpec spec = reshaped ? values_.Spec(v) : step->info->outputs[o];
    spec.format = Planned(v).spec.format;
    step->forward_outputs.push_back(values_.Data(v, spec));
    step->output_shapes.push_back(spec.shape);
  }
}

void StepBinder::BindParameters(const PlannedLayer& layer, LayerStep* step) {
  step->parameters.clear();
  step->statistics.clear();
  for (size_t i = 0; i < layer.parameters.size(); ++i) {
    const auto slot = static_cast<size_t>(layer.parameters[i]);
    const TensorView blob = parameters_.Blob(slot);
    // A blob that is shared PERMISSIVEly has this layer's shape here.
    const TensorView view(blob.raw(), plan_.parameters[slot].shape, blob.dtype(), blob.device());
    step->parameters.emplace_back(view);
    const bool updated = layer.info.parameters[i].statistic && parameters_.UpdatesStatistics();
    step->statistics.push_back(updated ? view : TensorView());
  }
  for (int fused : layer.fusion.followers) {
    for (int slot : plan_.layers[static_cast<size_t>(fused)].parameters) {
      step->parameters.push_back(parameters_.Blob(static_cast<size_t>(slot)));
    }
  }
}

void StepBinder::BindRecompute(const PlannedLayer& layer, LayerStep* step) {
  step->again_inputs.clear();
  step->again_outputs.clear();
  step->again_saved.clear();
  for (int v : layer.inputs) step->again_inputs.push_back(values_.LateData(v));
  for (int v : layer.outputs) step->again_outputs.push_back(values_.LateData(v));
  for (size_t i = 0; i < step->info->saved.size(); ++i) {
    step->again_saved.push_back(
        i < layer.saved.size() ? values_.View(layer.saved[i], step->info->saved[i]) : TensorView());
  }
}

void StepBinder::BindBackward(const PlannedLayer& layer, LayerStep* step) {
  step->backward_inputs.clear();
  step->backward_outputs.clear();
  step->input_grads.clear();
  const auto view = [&](int v, bool reads) -> ConstTensorView {
    if (reads) return values_.LateData(v);
    const BlobSpec spec = values_.Spec(v);
    return {nullptr, spec.shape, StoredType(spec), context_.device()};
  };
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    const int v = layer.inputs[i];
    step->backward_inputs.push_back(view(v, At(layer.info.backward_reads_input, i)));
    step->input_grads.push_back(layer.to_input[i] ? values_.Gradient(v) : TensorView());
  }
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    step->backward_outputs.push_back(
        view(layer.outputs[o], At(layer.info.backward_reads_output, o)));
  }
  BindOutputGradients(layer, step);
  BindParameterGradients(layer, step);
  const std::vector<TensorView>& saved = layer.recompute ? step->again_saved : step->saved;
  step->saved_const.assign(saved.begin(), saved.end());
  CheckBackwardStrides(layer, *step);
}

void StepBinder::BindOutputGradients(const PlannedLayer& layer, LayerStep* step) {
  step->output_grads.clear();
  step->seeds.clear();
  step->seed_values.clear();
  for (int v : layer.outputs) {
    const PlannedValue& value = Planned(v);
    const bool seeded = !value.gradient_written;
    const bool split = seeded && layer.info.share && value.loss_weight == 0;  // adds to it
    if (split) {
      step->output_grads.emplace_back();
      continue;
    }
    const TensorView gradient = values_.Gradient(v);
    step->output_grads.push_back(gradient);
    if (seeded) {
      step->seeds.push_back(gradient);
      step->seed_values.push_back(value.loss_weight);
    }
  }
}

void StepBinder::BindParameterGradients(const PlannedLayer& layer, LayerStep* step) {
  step->parameter_grads.clear();
  const auto add = [&](const PlannedLayer& member) {
    for (size_t i = 0; i < member.parameters.size(); ++i) {
      step->parameter_grads.push_back(
          member.to_parameters[i] ? parameters_.Gradient(static_cast<size_t>(member.parameters[i]))
                                  : TensorView());
    }
  };
  add(layer);
  for (int fused : layer.fusion.followers) add(plan_.layers[static_cast<size_t>(fused)]);
}

void StepBinder::GrowOutputs(size_t index, std::span<const Shape> shapes) {
  const PlannedLayer& layer = plan_.layers[index];
  LayerStep& step = steps_[index];
  std::unique_ptr<LayerInfo> info;
  for (size_t o = 0; o < shapes.size(); ++o) {
    if (shapes[o].count() <= step.forward_outputs[o].count()) continue;
    if (info == nullptr) info = std::make_unique<LayerInfo>(*step.info);
    info->outputs[o].shape = shapes[o];
    values_.SetShape(layer.outputs[o], shapes[o]);
  }
  if (info == nullptr) return;
  step.own_info = std::move(info);
  step.info = step.own_info.get();
  BindForward(layer, &step);
}

void StepBinder::FindBufferReaders() {
  buffer_readers_.resize(plan_.values.size());
  for (size_t i = 0; i < plan_.layers.size(); ++i) {
    const auto note = [&](int v) {
      const int buffer_owner = Planned(v).data.buffer_owner;
      if (buffer_owner < 0) return;
      std::vector<size_t>& layers = buffer_readers_[static_cast<size_t>(buffer_owner)];
      if (layers.empty() || layers.back() != i) layers.push_back(i);
    };
    std::ranges::for_each(plan_.layers[i].inputs, note);
    std::ranges::for_each(plan_.layers[i].outputs, note);
  }
}

void StepBinder::TakeExternalBuffers(size_t index) {
  LayerStep& step = steps_[index];
  for (size_t o = 0; o < step.external.size(); ++o) {
    if (step.external[o] == nullptr) continue;
    const int v = plan_.layers[index].outputs[o];
    values_.SetExternalBuffer(v, std::exchange(step.external[o], nullptr));
    for (const size_t reader : buffer_readers_[static_cast<size_t>(v)]) Rebind(reader);
  }
}

// The shapes of the views stay: by them ForwardStep finds out if shapes have changed.
void StepBinder::Rebind(size_t index) {
  const PlannedLayer& layer = plan_.layers[index];
  LayerStep& step = steps_[index];
  const auto rebind = [&](int v, auto* view) {
    const ArenaSlot& slot = Planned(v).data;
    if (slot.buffer_owner >= 0) *view = values_.View(slot, {view->shape(), view->dtype()});
  };
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    rebind(layer.inputs[i], &step.forward_inputs[i]);
  }
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    rebind(layer.outputs[o], &step.forward_outputs[o]);
  }
  step.recompute_version = kUnbound;
  step.backward_version = kUnbound;
}

std::vector<BlobSpec> StepBinder::OwnInputs(const PlannedLayer& layer) const {
  std::vector<BlobSpec> inputs;
  for (size_t i = 0; i < layer.OwnInputs(); ++i) inputs.push_back(values_.Spec(layer.inputs[i]));
  return inputs;
}

void StepBinder::InferAgain(const PlannedLayer& layer, LayerStep* step) {
  if (layer.fusion.leader >= 0) {
    const Shape shape = values_.shape(layer.inputs[0]);
    values_.SetShape(layer.outputs[0], shape);
    step->own_info = std::make_unique<LayerInfo>(layer.info);
    step->own_info->outputs[0].shape = shape;
    step->info = step->own_info.get();
    return BindForward(layer, step);
  }
  const std::vector<BlobSpec> inputs = OwnInputs(layer);
  const InferContext context = ContextOf(*layer.layer, inputs, layer.outputs.size(), plan_.options);
  auto info = std::make_unique<LayerInfo>(layer.layer->Infer(context));
  if (layer.implementation != nullptr) {
    *info = layer.implementation->Info(QueryOf(layer, context, *info));
  }
  CheckPlanned(layer, info.get());
  for (size_t i = inputs.size(); i < inputs.size() + layer.fusion.extra_inputs; ++i) {
    CheckAdded(layer, values_.shape(layer.inputs[i]), info->outputs[0].shape);
  }
  step->own_info = std::move(info);
  step->info = step->own_info.get();
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    values_.SetShape(layer.outputs[o], step->info->outputs[o].shape);
  }
  ChooseImplementation(layer, QueryOf(layer, context, *step->info), step);
  BindForward(layer, step);
}

// Throws unless all tensors fit their memory, or that can grow. Saved tensors keep their planned
// layout.
void StepBinder::CheckPlanned(const PlannedLayer& layer, LayerInfo* info) const {
  const LayerInfo& planned = layer.info;
  CREMA_CHECK(info->outputs.size() == planned.outputs.size() &&
              info->saved.size() == planned.saved.size());
  for (size_t o = 0; o < info->outputs.size(); ++o) {
    const PlannedValue& value = Planned(layer.outputs[o]);
    if (!values_.CanGrow()) CheckFits(info->outputs[o], value.spec, StrCat("'", value.name, "'"));
  }
  for (size_t s = 0; s < info->saved.size(); ++s) {
    if (!values_.CanGrow()) {
      CheckFits(info->saved[s], planned.saved[s], StrCat("what it saves for backward (", s, ")"));
    }
    info->saved[s].format = planned.saved[s].format;
    if (values_.CanGrow() && s < layer.saved.size()) {
      values_.Reserve(layer.saved[s], info->saved[s]);
    }
  }
  for (size_t i = 0; i < planned.parameters.size(); ++i) {
    if (i < info->parameters.size() && info->parameters[i].shape == planned.parameters[i].shape)
      continue;
    FailInputs(*layer.layer,
               StrCat("with these inputs its ", planned.parameters[i].role,
                      " would need another shape than ", ToString(planned.parameters[i].shape)));
  }
}

OpDesc StepBinder::QueryOf(const PlannedLayer& layer, const InferContext& context,
                           const LayerInfo& info) const {
  OpDesc query = crema::QueryOf(layer, context, info, OutputStride(layer), plan_.options);
  query.threads = context_.threads();
  return query;
}

void StepBinder::MakeImplementationState(const PlannedLayer& layer, LayerStep* step) {
  if (step->implementation == nullptr) return;
  const std::vector<BlobSpec> inputs = OwnInputs(layer);
  const InferContext context = ContextOf(*layer.layer, inputs, layer.outputs.size(), plan_.options);
  WithLayerContext(layer, [&] {
    step->implementation_state =
        step->implementation->MakeState(QueryOf(layer, context, *step->info));
  });
  if (step->implementation_state == nullptr) return;
  GiveTimer(plan_.options, step->implementation_state.get());
  // Libraries may ask for more scratch memory on fewer threads.
  if (context_.threads() != plan_.options.threads) {
    ReserveScratch(QueryOf(layer, context, *step->info), step);
  }
}

// Uses the planned implementation if it can compute these shapes, else another one for the same
// layouts.
void StepBinder::ChooseImplementation(const PlannedLayer& layer, const OpDesc& query,
                                      LayerStep* step) {
  const Implementation* implementation = layer.implementation;
  std::vector<BlobSpec> outputs;
  for (const int v : layer.outputs) outputs.push_back(values_.Spec(v));
  if (implementation != nullptr && !Fits(*implementation, query, outputs)) {
    implementation = FindOther(layer, query, outputs, plan_.options);
  }
  step->implementation = implementation;
  step->implementation_state = nullptr;
  if (implementation != nullptr) step->implementation_state = implementation->MakeState(query);
  GiveTimer(plan_.options, step->implementation_state.get());
  ReserveScratch(query, step);
}

void StepBinder::ReserveScratch(const OpDesc& query, LayerStep* step) {
  const Needs needs =
      step->implementation != nullptr ? step->implementation->NeedsOf(query) : Needs{};
  step->forward_scratch = needs.forward_scratch;
  step->backward_scratch = needs.backward_scratch;
  const size_t needed = std::max(step->forward_scratch, step->backward_scratch);
  if (needed > scratch_.bytes()) scratch_ = ByteMemory(needed, context_);
}

// A Concat within a Concat does not run if its output is a sub-view, nor does a view of one.
int64_t StepBinder::OutputStride(const PlannedLayer& layer) const {
  if (layer.outputs.size() != 1 || layer.concat_in_place == ConcatPlace::kStrided ||
      layer.info.view) {
    return 0;
  }
  return values_.Data(layer.outputs[0]).image_stride();
}

// Returns true if the inputs lie at their places in the output, for the current shapes.
bool StepBinder::IsConcatInPlace(const PlannedLayer& layer) const {
  if (layer.concat_in_place == ConcatPlace::kContiguous) {
    return std::ranges::all_of(layer.inputs,
                               [&](int v) { return values_.shape(v) == Planned(v).spec.shape; });
  }
  if (layer.concat_in_place == ConcatPlace::kNone) return false;
  const auto sub_views =
      std::ranges::count_if(layer.inputs, [&](int v) { return values_.IsSubView(v); });
  const auto inputs = static_cast<std::ptrdiff_t>(layer.inputs.size());
  // With some inputs in place and some elsewhere, the copies would overwrite the former.
  const bool copies_into_range = values_.Data(layer.outputs[0]).image_stride() != 0;
  if ((sub_views != 0 || copies_into_range) && sub_views != inputs) {
    FailInputs(*layer.layer,
               "the channels of some of its inputs differ from the plan; plan a net of "
               "these sizes");
  }
  return sub_views == inputs;
}

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
