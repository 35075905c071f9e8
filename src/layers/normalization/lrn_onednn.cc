// Implementations of LRN on blocked blobs by oneDNN. "onednn": forward in 0.8 of the time of our
// own, and our own way back. "onednn, workspace", behind our own implementation, so that only
// measuring chooses it: forward leaves twice the size of x for a way back that takes about half the
// time of our own (bench/results/kernels.md).
#include <utility>

#include "layers/normalization/lrn_implementations.h"
#include "math/lrn_primitive.h"

namespace crema {
namespace {

LrnPrimitiveConfig ConfigOf(const OpDesc& query, bool backward) {
  const LRNParameter& p = query.layer.param().lrn_param();
  const Shape& shape = query.context.inputs[0].shape;
  return {.batch = shape[0],
          .shape = {shape[1], shape[2], shape[3]},
          .param = {.size = p.local_size(), .alpha = p.alpha(), .beta = p.beta(), .k = p.k()},
          .backward = backward,
          .threads = query.threads};
}

Support SupportsPrimitive(const OpDesc& query, bool backward) {
  if (query.deterministic) return Support::No("its bits may depend on the number of threads");
  if (query.context.inputs[0].shape.count() == 0) return Support::No("there is nothing to do");
  try {
    if (!LrnPrimitive(ConfigOf(query, backward)).IsReference()) return {};
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return Support::No("oneDNN has its slow reference only for this local_size or beta");
}

struct State final : ImplementationState {
  explicit State(const LrnPrimitiveConfig& config) : primitive(config) { primitive.Prepare(); }
  LrnPrimitive primitive;
};

void ForwardAlone(const Layer&, const ForwardArgs& args) {
  static_cast<State*>(args.implementation_state)
      ->primitive.Forward(args.inputs[0].data<float>(), args.outputs[0].data<float>(), nullptr,
                          args.scratch);
}

void Forward(const Layer&, const ForwardArgs& args) {
  void* workspace = args.saved.empty() ? nullptr : args.saved[0].raw();
  static_cast<State*>(args.implementation_state)
      ->primitive.Forward(args.inputs[0].data<float>(), args.outputs[0].data<float>(), workspace,
                          args.scratch);
}

void Backward(const Layer&, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  static_cast<State*>(args.implementation_state)
      ->primitive.Backward(args.inputs[0].data<float>(), args.saved[0].raw(),
                           args.output_grads[0].data<float>(), args.input_grads[0].data<float>(),
                           args.scratch);
}

// One blob always, also where a smaller input has nothing to save.
LayerInfo SavingWorkspace(const OpDesc& query) {
  LayerInfo info = query.info;
  size_t bytes = 0;
  if (SupportsPrimitive(query, true).yes) {
    bytes = LrnPrimitive(ConfigOf(query, true)).WorkspaceBytes();
  }
  info.saved = {{Shape{static_cast<int64_t>(bytes / sizeof(float))}, DType::kF32}};
  return info;
}

// Forward by oneDNN, all else as in `blocked`.
Implementation WithForward(Implementation implementation, bool backward) {
  implementation.supports = [=, own = implementation.supports](const OpDesc& query) {
    const Support support = own(query);
    return support.yes ? SupportsPrimitive(query, backward) : support;
  };
  implementation.forward = backward ? Forward : ForwardAlone;
  implementation.forward_scratch = [=](const OpDesc& query) {
    return LrnPrimitive(ConfigOf(query, backward)).ForwardScratch();
  };
  implementation.make_state = [=](const OpDesc& query) -> std::unique_ptr<ImplementationState> {
    return std::make_unique<State>(ConfigOf(query, backward));
  };
  return implementation;
}

}  // namespace

Implementation OneDnnLrnImplementation(Implementation blocked) {
  Implementation implementation = WithForward(std::move(blocked), false);
  implementation.name = "onednn";
  return implementation;
}

Implementation OneDnnLrnTrainingImplementation(Implementation blocked) {
  Implementation implementation = WithForward(std::move(blocked), true);
  implementation.name = "onednn, workspace";
  implementation.supports = [possible = implementation.supports](const OpDesc& query) {
    if (!query.backward) return Support::No("is for passes that backward follows");
    return possible(query);
  };
  implementation.backward = Backward;
  implementation.backward_scratch = [](const OpDesc& query) {
    return LrnPrimitive(ConfigOf(query, true)).BackwardScratch();
  };
  implementation.info = SavingWorkspace;
  return implementation;
}

}  // namespace crema
