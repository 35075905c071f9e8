#include "graph/implementation.h"

namespace crema {

OpDesc OpDesc::With(const InferContext& other_context, const LayerInfo& other_info) const {
  return {layer,         other_context, other_info, threads,       backward, to_input,
          deterministic, precision,     fused,      output_stride, gpu,      processor};
}

Support Implementation::Supports(const OpDesc& op) const {
  if (op.output_stride != 0 && !strided_output) return Support::No("writes whole blobs only");
  const Support support = SupportsLayer(op);
  const bool fuses = op.fused.empty() || (support.yes && CanFuse(op));
  return support.yes && !fuses ? Support::No("") : support;
}

bool FunctionImplementation::CanFuse(const OpDesc& op) const {
  return functions_.can_fuse != nullptr && functions_.can_fuse(op);
}

std::optional<double> FunctionImplementation::Seconds(const OpDesc& op) const {
  return functions_.seconds != nullptr ? std::optional(functions_.seconds(op)) : std::nullopt;
}

LayerInfo FunctionImplementation::Info(const OpDesc& op) const {
  return functions_.info != nullptr ? functions_.info(op) : op.info;
}

Needs FunctionImplementation::NeedsOf(const OpDesc& op) const {
  const auto ask = [&](size_t (*bytes)(const OpDesc&)) { return bytes != nullptr ? bytes(op) : 0; };
  Needs needs{.forward_scratch = functions_.forward != nullptr
                                     ? ask(functions_.forward_scratch)
                                     : op.layer.ForwardScratch(op.context, op.info, op.threads),
              .state_bytes = ask(functions_.state_bytes)};
  if (!op.backward) return needs;
  needs.backward_scratch = functions_.backward != nullptr
                               ? ask(functions_.backward_scratch)
                               : op.layer.BackwardScratch(op.context, Info(op), op.threads);
  return needs;
}

void FunctionImplementation::Forward(const Layer& layer, const ForwardArgs& args) const {
  functions_.forward != nullptr ? functions_.forward(layer, args) : layer.Forward(args);
}

void FunctionImplementation::Backward(const Layer& layer, const BackwardArgs& args) const {
  functions_.backward != nullptr ? functions_.backward(layer, args) : layer.Backward(args);
}

Support FunctionImplementation::SupportsLayer(const OpDesc& op) const {
  return functions_.supports != nullptr ? functions_.supports(op) : Support{};
}

Support ImplementationAdapter::SupportsLayer(const OpDesc& op) const {
  for (const Check check : checks_) {
    const Support support = check != nullptr ? check(op) : Support{};
    if (!support.yes) return support;
  }
  return own_->Supports(op);
}

}  // namespace crema
