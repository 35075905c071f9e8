// Extents that change from one forward pass to the next, without planning anew.
#include <algorithm>
#include <memory>
#include <utility>

#include "core/strings.h"
#include "runtime/naming_layer.h"
#include "runtime/session.h"

namespace crema {
namespace {

// A tensor of `spec` must fit where one of `planned` was placed.
void CheckFits(const BlobSpec& spec, const BlobSpec& planned, const std::string& what) {
  if (spec.shape.count() <= planned.shape.count() && spec.dtype == planned.dtype) return;
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
    NamingLayer(layer, [&] { InferAgain(layer, step); });
  }
  step->forward_epoch = shape_epoch_;
}

void Session::InferAgain(const PlannedLayer& layer, Step* step) {
  std::vector<BlobSpec> inputs;
  for (int v : layer.inputs) inputs.push_back(SpecOf(v));
  const InferContext context{.phase = layer.layer->param().phase(),
                             .inputs = inputs,
                             .output_count = layer.outputs.size(),
                             .dtype = plan_->options.dtype,
                             .rank = plan_->options.rank,
                             .world = plan_->options.world};
  auto info = std::make_unique<LayerInfo>(layer.layer->Infer(context));
  const LayerInfo& planned = layer.info;
  CREMA_CHECK(info->outputs.size() == planned.outputs.size() &&
              info->saved.size() == planned.saved.size());
  for (size_t o = 0; o < info->outputs.size(); ++o) {
    const int v = layer.outputs[o];
    CheckFits(info->outputs[o], planned.outputs[o],
              StrCat("'", plan_->values[static_cast<size_t>(v)].name, "'"));
  }
  for (size_t s = 0; s < info->saved.size(); ++s) {
    CheckFits(info->saved[s], planned.saved[s], StrCat("what it saves for backward (", s, ")"));
  }
  for (size_t i = 0; i < planned.learned.size(); ++i) {
    if (i < info->learned.size() && info->learned[i].shape == planned.learned[i].shape) continue;
    FailInputs(*layer.layer,
               StrCat("with these inputs its ", planned.learned[i].role,
                      " would need another shape than ", ToString(planned.learned[i].shape)));
  }
  step->own_info = std::move(info);
  step->info = step->own_info.get();
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    SetShape(layer.outputs[o], step->info->outputs[o].shape);
  }
  ChooseKernelAgain(layer, {*layer.layer, context, *step->info, plan_->options.threads}, step);
  BindForward(layer, step);
}

// The kernel of the plan if it can do these extents, else the native one.
void Session::ChooseKernelAgain(const PlannedLayer& layer, const KernelQuery& query, Step* step) {
  const Kernel* kernel = layer.kernel;
  if (kernel != nullptr && kernel->supports && !kernel->supports(query).yes) kernel = nullptr;
  step->kernel = kernel;
  step->forward_scratch = ForwardScratchOf(kernel, query);
  step->backward_scratch = layer.backward ? BackwardScratchOf(kernel, query) : 0;
  const size_t needed = std::max(step->forward_scratch, step->backward_scratch);
  if (needed > scratch_.view().bytes()) scratch_ = ByteTensor(needed);
}

}  // namespace crema
