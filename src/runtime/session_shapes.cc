// Extents that change from one forward pass to the next, without planning anew.
#include <algorithm>
#include <memory>
#include <utility>

#include "core/strings.h"
#include "graph/layer_query.h"
#include "graph/passes/memory_formats.h"
#include "graph/tunes_engines.h"
#include "runtime/naming_layer.h"
#include "runtime/session.h"

namespace crema {
namespace {

void GiveTimer(const PlanOptions& options, KernelState* state) {
  auto* tunes = dynamic_cast<TunesEngines*>(state);
  if (tunes != nullptr && !options.deterministic) tunes->UseTimer(options.row_timer);
}

// In the formats that its inputs and outputs have.
bool Fits(const Kernel& kernel, const KernelQuery& query, std::span<const BlobSpec> outputs) {
  if (query.output_stride != 0 && !kernel.strided_output) return false;
  if (kernel.supports && !kernel.supports(query).yes) return false;
  if (!FitsFormats(kernel, query.info, query.context.inputs, outputs)) return false;
  if (query.handed.any() && !kernel.helps_norm && !kernel.hands_as_norm) return false;
  return query.absorbed.empty() || (kernel.absorbs && kernel.absorbs(query));
}

const Kernel* FindOther(const PlannedLayer& layer, const KernelQuery& query,
                        std::span<const BlobSpec> outputs, const PlanOptions& options) {
  for (const Kernel& kernel : layer.type->kernels) {
    if (MayUse(kernel, *layer.layer, options) && Fits(kernel, query, outputs)) return &kernel;
  }
  FailInputs(*layer.layer,
             StrCat("no implementation takes these inputs in the memory format ",
                    ToString(query.context.inputs[0].format), "; plan a net of these extents",
                    query.handed.any() ? ", or one with --passes=-hand_statistics" : ""));
}

// What absorbed layers add is added as it is.
void CheckAdded(const PlannedLayer& layer, const Shape& added, const Shape& output) {
  if (added == output) return;
  const auto adds = [](const Layer* absorbed) { return absorbed->param().bottom_size() > 1; };
  FailInputs(**std::ranges::find_if(layer.absorbed_layers, adds),
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
  if (plan_->values[static_cast<size_t>(v)].range >= 0 && !IsRange(v, shape)) TakeMemoryApart(v);
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
    NamingLayer(layer, [&] { InferAgain(layer, step); });
  }
  step->forward_epoch = shape_epoch_;
}

void Session::InferAgain(const PlannedLayer& layer, Step* step) {
  if (layer.absorbed_by >= 0) {
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
  if (layer.kernel != nullptr && layer.kernel->info) {
    *info = layer.kernel->info(QueryOf(layer, context, *info));
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
  for (size_t i = inputs.size(); i < inputs.size() + layer.added_inputs; ++i) {
    CheckAdded(layer, SpecOf(layer.inputs[i]).shape, info->outputs[0].shape);
  }
  step->own_info = std::move(info);
  step->info = step->own_info.get();
  for (size_t o = 0; o < layer.OwnOutputs(); ++o) {
    SetShape(layer.outputs[o], step->info->outputs[o].shape);
  }
  ChooseKernelAgain(layer, QueryOf(layer, context, *step->info), step);
  BindForward(layer, step);
}

KernelQuery Session::QueryOf(const PlannedLayer& layer, const InferContext& context,
                             const LayerInfo& info) const {
  KernelQuery query = crema::QueryOf(layer, context, info, OutputStrideOf(layer), plan_->options);
  query.threads = context_.threads();
  return query;
}

// For the extents of now.
void Session::MakeKernelState(const PlannedLayer& layer, Step* step) {
  if (step->kernel == nullptr || !step->kernel->make_state) return;
  std::vector<BlobSpec> inputs;
  for (int v : layer.inputs) inputs.push_back(SpecOf(v));
  inputs.resize(layer.OwnInputs());
  const InferContext context = ContextOf(*layer.layer, inputs, layer.OwnOutputs(), plan_->options);
  NamingLayer(layer, [&] {
    step->kernel_state = step->kernel->make_state(QueryOf(layer, context, *step->info));
  });
  GiveTimer(plan_->options, step->kernel_state.get());
  // What libraries ask for need not be less on fewer threads.
  if (context_.threads() != plan_->options.threads) {
    BookScratch(layer, QueryOf(layer, context, *step->info), step);
  }
}

// The kernel of the plan if it can do these extents, else another one for the same blobs.
void Session::ChooseKernelAgain(const PlannedLayer& layer, const KernelQuery& query, Step* step) {
  const Kernel* kernel = layer.kernel;
  std::vector<BlobSpec> outputs;
  for (size_t o = 0; o < layer.OwnOutputs(); ++o) outputs.push_back(SpecOf(layer.outputs[o]));
  if (kernel != nullptr && !Fits(*kernel, query, outputs)) {
    kernel = FindOther(layer, query, outputs, plan_->options);
  }
  step->kernel = kernel;
  step->kernel_state = nullptr;
  if (kernel != nullptr && kernel->make_state) step->kernel_state = kernel->make_state(query);
  GiveTimer(plan_->options, step->kernel_state.get());
  BookScratch(layer, query, step);
}

void Session::BookScratch(const PlannedLayer& layer, const KernelQuery& query, Step* step) {
  step->forward_scratch = ForwardScratchOf(step->kernel, query);
  step->backward_scratch = layer.backward ? BackwardScratchOf(step->kernel, query) : 0;
  const size_t needed = std::max(step->forward_scratch, step->backward_scratch);
  if (needed > scratch_.view().bytes()) scratch_ = ByteTensor(needed);
}

}  // namespace crema
