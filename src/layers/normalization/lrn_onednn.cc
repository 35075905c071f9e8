// Implementations of LRN on blocked blobs by oneDNN. "onednn": forward takes 0.8 of the time of our
// kernel; backward is ours. "onednn, workspace" comes after our implementation, so that only
// measuring chooses it: forward saves twice the size of x for a backward pass that takes about half
// the time of ours (bench/results/kernels.md).
#include <utility>

#include "crema.pb.h"
#include "layers/blocked_implementation.h"
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

// Always saves one blob, even if a smaller input has nothing to save.
LayerInfo SavingWorkspace(const OpDesc& query) {
  LayerInfo info = query.info;
  size_t bytes = 0;
  if (SupportsPrimitive(query, true).yes) {
    bytes = LrnPrimitive(ConfigOf(query, true)).WorkspaceBytes();
  }
  info.saved = {{Shape{static_cast<int64_t>(bytes / sizeof(float))}, DType::kF32}};
  return info;
}

// Runs forward by oneDNN, and with a workspace backward too; all else as in `blocked`.
class OneDnnLrn final : public ImplementationAdapter {
 public:
  OneDnnLrn(ImplementationPtr blocked, bool workspace)
      : ImplementationAdapter(BlockedFacts(workspace ? "onednn, workspace" : "onednn"),
                              std::move(blocked)),
        workspace_(workspace) {}

  LayerInfo Info(const OpDesc& op) const override {
    return workspace_ ? SavingWorkspace(op) : own().Info(op);
  }
  Needs NeedsOf(const OpDesc& op) const override {
    Needs needs = own().NeedsOf(op);
    const LrnPrimitive primitive(ConfigOf(op, workspace_));
    needs.forward_scratch = primitive.ForwardScratch();
    if (workspace_ && op.backward) needs.backward_scratch = primitive.BackwardScratch();
    return needs;
  }
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    return std::make_unique<State>(ConfigOf(op, workspace_));
  }
  void Forward(const Layer&, const ForwardArgs& args) const override {
    void* workspace = workspace_ && !args.saved.empty() ? args.saved[0].raw() : nullptr;
    static_cast<State*>(args.implementation_state)
        ->primitive.Forward(args.inputs[0].data<float>(), args.outputs[0].data<float>(), workspace,
                            args.scratch);
  }
  void Backward(const Layer& layer, const BackwardArgs& args) const override {
    if (!workspace_) return own().Backward(layer, args);
    if (args.input_grads[0].empty()) return;
    static_cast<State*>(args.implementation_state)
        ->primitive.Backward(args.inputs[0].data<float>(), args.saved[0].raw(),
                             args.output_grads[0].data<float>(), args.input_grads[0].data<float>(),
                             args.scratch);
  }

 private:
  Support SupportsLayer(const OpDesc& op) const override {
    if (workspace_ && !op.backward) return Support::No("is for passes that backward follows");
    const Support support = own().Supports(op);
    return support.yes ? SupportsPrimitive(op, workspace_) : support;
  }

  const bool workspace_;
};

}  // namespace

ImplementationPtr OneDnnLrnImplementation(ImplementationPtr blocked) {
  return std::make_shared<OneDnnLrn>(std::move(blocked), false);
}

ImplementationPtr OneDnnLrnTrainingImplementation(ImplementationPtr blocked) {
  return std::make_shared<OneDnnLrn>(std::move(blocked), true);
}

}  // namespace crema
