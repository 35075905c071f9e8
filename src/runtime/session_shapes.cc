// Extents that change from one forward pass to the next, without planning anew.
#include <algorithm>
#include <memory>
#include <utility>

#include "core/strings.h"
#include "plan/layer_query.h"
#include "plan/passes/memory_formats.h"
#include "plan/tunes_engines.h"
#include "runtime/layer_error_context.h"
#include "runtime/session.h"

namespace crema {
namespace {

void GiveTimer(const PlanOptions& options, ImplementationState* state) {
  auto* tunes = dynamic_cast<TunesEngines*>(state);
  if (tunes != nullptr && !options.deterministic) tunes->UseTimer(options.implementation_timer);
}

// In the formats that its inputs and outputs have.
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
             StrCat("no implementation takes these inputs in the memory format ",
                    ToString(query.context.inputs[0].format), "; plan a net of these extents",
                    query.norm_fusion.any() ? ", or one with --passes=-fuse_batch_norm" : ""));
}

// What fused layers add is added as it is.
void CheckAdded(const PlannedLayer& layer, const Shape& added, const Shape& output) {
  if (added == output) return;
  const auto adds = [](const Layer* fused) { return fused->param().bottom_size() > 1; };
  FailInputs(**std::ranges::find_if(layer.fused_layers, adds),
             StrCat("all inputs must have one shape, but two of them have ", ToString(output),
                    " and ", ToString(added)));
}

// A tensor of `spec` must fit where one of `planned` was placed.
void CheckFits(BlobSpec spec, const BlobSpec& planned, const std::string& what) {
  spec.format = planned.format;
  const bool of_pixels = IsBlocked(spec.format) || spec.format == MemoryFormat::kInt8;
  const bool same_axes = !of_pixels || spec.shape.axes() == 4;
  if (same_axes && StoredCount(spec) <= StoredCount(planned) && spec.dtype == planned.dtype) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat(what, " would be ", ToString(spec.shape), ", but the net was planned for at most ",
              planned.shape.count(), " elements (", ToString(planned.shape), ")"));
}

}  // namespace

void Session::SetShape(int v, const Shape& shape) {
  Shape& now = shapes_[static_cast<size_t>(v)];
  if (now == shape) return;
  now = shape;
  ++shape_epoch_;
  if (plan_->values[static_cast<size_t>(v)].sub_view_of >= 0 && !IsSubView(v, shape))
    TakeOwnMemory(v);
}

void Session::Reshape(const std::string& input, const Shape& shape) {
  const int v = plan_->FindFirstValue(input);
  if (v < 0) Fail(ErrorCode::kNotFound, StrCat("the net has no blob '", input, "'"));
  const PlannedValue& value = plan_->values[static_cast<size_t>(v)];
  if (plan_->layers[static_cast<size_t>(value.producer)].type->name != "Input") {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", input, "' is made by a layer; only inputs of the net can be reshaped"));
  }
  CheckFits({shape, value.spec.dtype}, value.spec, StrCat("'", input, "'"));
  SetShape(v, shape);
}

void Session::TakeDynamicShapes(const PlannedLayer& layer, const Step& step) {
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    CREMA_CHECK(step.output_shapes[o].count() <= step.forward_outputs[o].count());
    SetShape(layer.outputs[o], step.output_shapes[o]);
  }
}

void Session::Refit(const PlannedLayer& layer, Step* step) {
  bool same = true;
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    same = same && step->forward_inputs[i].shape() == shapes_[static_cast<size_t>(layer.inputs[i])];
  }
  if (layer.inputs.empty()) {
    BindForward(layer, step);
  } else if (!same) {
    // Where that throws halfway, the next pass infers again whatever extents it has.
    std::ranges::fill(step->forward_inputs, ConstTensorView());
    WithLayerContext(layer, [&] { InferAgain(layer, step); });
  }
  step->forward_epoch = shape_epoch_;
}

void Session::InferAgain(const PlannedLayer& layer, Step* step) {
  if (layer.fused_into >= 0) {
    SetShape(layer.outputs[0], SpecOf(layer.inputs[0]).shape);
    step->own_info = std::make_unique<LayerInfo>(layer.info);
    step->own_info->outputs[0].shape = SpecOf(layer.inputs[0]).shape;
    step->info = step->own_info.get();
    return BindForward(layer, step);
  }
  std::vector<BlobSpec> inputs;
  for (int v : layer.inputs) inputs.push_back(SpecOf(v));
  inputs.resize(layer.OwnInputs());
  const InferContext context = ContextOf(*layer.layer, inputs, layer.OwnOutputs(), plan_->options);
  auto info = std::make_unique<LayerInfo>(layer.layer->Infer(context));
  if (layer.implementation != nullptr) {
    *info = layer.implementation->Info(QueryOf(layer, context, *info));
  }
  const LayerInfo& planned = layer.info;
  CREMA_CHECK(info->outputs.size() == planned.outputs.size() &&
              info->saved.size() == planned.saved.size());
  for (size_t o = 0; o < info->outputs.size(); ++o) {
    const PlannedValue& value = plan_->values[static_cast<size_t>(layer.outputs[o])];
    CheckFits(info->outputs[o], value.spec, StrCat("'", value.name, "'"));
  }
  for (size_t s = 0; s < info->saved.size(); ++s) {
    CheckFits(info->saved[s], planned.saved[s], StrCat("what it saves for backward (", s, ")"));
    info->saved[s].format = planned.saved[s].format;  // it may have been made from that of an input
  }
  for (size_t i = 0; i < planned.learned.size(); ++i) {
    if (i < info->learned.size() && info->learned[i].shape == planned.learned[i].shape) continue;
    FailInputs(*layer.layer,
               StrCat("with these inputs its ", planned.learned[i].role,
                      " would need another shape than ", ToString(planned.learned[i].shape)));
  }
  for (size_t i = inputs.size(); i < inputs.size() + layer.extra_inputs; ++i) {
    CheckAdded(layer, SpecOf(layer.inputs[i]).shape, info->outputs[0].shape);
  }
  step->own_info = std::move(info);
  step->info = step->own_info.get();
  for (size_t o = 0; o < layer.OwnOutputs(); ++o) {
    SetShape(layer.outputs[o], step->info->outputs[o].shape);
  }
  ChooseImplementationAgain(layer, QueryOf(layer, context, *step->info), step);
  BindForward(layer, step);
}

OpDesc Session::QueryOf(const PlannedLayer& layer, const InferContext& context,
                        const LayerInfo& info) const {
  OpDesc query = crema::QueryOf(layer, context, info, OutputStrideOf(layer), plan_->options);
  query.threads = context_.threads();
  return query;
}

// For the extents of now.
void Session::MakeImplementationState(const PlannedLayer& layer, Step* step) {
  if (step->implementation == nullptr) return;
  std::vector<BlobSpec> inputs;
  for (int v : layer.inputs) inputs.push_back(SpecOf(v));
  inputs.resize(layer.OwnInputs());
  const InferContext context = ContextOf(*layer.layer, inputs, layer.OwnOutputs(), plan_->options);
  WithLayerContext(layer, [&] {
    step->implementation_state =
        step->implementation->MakeState(QueryOf(layer, context, *step->info));
  });
  if (step->implementation_state == nullptr) return;
  GiveTimer(plan_->options, step->implementation_state.get());
  // What libraries ask for need not be less on fewer threads.
  if (context_.threads() != plan_->options.threads) {
    BookScratch(QueryOf(layer, context, *step->info), step);
  }
}

// The implementation of the plan if it can do these extents, else another one for the same blobs.
void Session::ChooseImplementationAgain(const PlannedLayer& layer, const OpDesc& query,
                                        Step* step) {
  const Implementation* implementation = layer.implementation;
  std::vector<BlobSpec> outputs;
  for (size_t o = 0; o < layer.OwnOutputs(); ++o) outputs.push_back(SpecOf(layer.outputs[o]));
  if (implementation != nullptr && !Fits(*implementation, query, outputs)) {
    implementation = FindOther(layer, query, outputs, plan_->options);
  }
  step->implementation = implementation;
  step->implementation_state = nullptr;
  if (implementation != nullptr) step->implementation_state = implementation->MakeState(query);
  GiveTimer(plan_->options, step->implementation_state.get());
  BookScratch(query, step);
}

void Session::BookScratch(const OpDesc& query, Step* step) {
  const Needs needs =
      step->implementation != nullptr ? step->implementation->NeedsOf(query) : Needs{};
  step->forward_scratch = needs.forward_scratch;
  step->backward_scratch = needs.backward_scratch;
  const size_t needed = std::max(step->forward_scratch, step->backward_scratch);
  if (needed > scratch_.view().bytes()) scratch_ = ByteTensor(needed);
}

}  // namespace crema
