// Row "onednn": MAX and AVE pooling of blocked blobs by oneDNN, forward in about half the time of
// the row "blocked" and backward in a third (bench/results/kernels.md). Indices of maxima are the
// same, so that what one of them saved the other could read.
#include <memory>
#include <optional>

#include "layers/blocked_row.h"
#include "layers/pooling/pooling.h"
#include "math/pool_primitive.h"

namespace crema {
namespace {

using Rule = PoolPrimitiveConfig::Rule;

const Pooling& PoolingOf(const Layer& layer) { return static_cast<const Pooling&>(layer); }

bool HasEmptyWindow(const PoolAxis& axis) { return axis.Start(axis.out - 1) >= axis.in; }
bool IsWholeAxis(const PoolAxis& axis) { return axis.out == 1 && axis.kernel >= axis.in; }
bool ReachesBeyondPad(const PoolAxis& axis) {
  return axis.Start(axis.out - 1) + axis.kernel > axis.in + axis.pad;
}

// What Caffe divides by: the window without what lies beyond the padding. Nothing where oneDNN has
// no such rule.
std::optional<Rule> RuleOf(const Pooling& pooling, const PoolWindow& window) {
  if (!pooling.IsAverage()) return Rule::kMax;
  const bool padded = window.h.pad > 0 || window.w.pad > 0;
  if (pooling.ExcludesPad() || !padded) return Rule::kMeanInsideImage;
  if (ReachesBeyondPad(window.h) || ReachesBeyondPad(window.w)) return std::nullopt;
  return Rule::kMeanOfWindow;
}

PoolPrimitiveConfig ConfigOf(const KernelQuery& query) {
  const Pooling& pooling = PoolingOf(query.layer);
  const Shape& shape = query.context.inputs[0].shape;
  const PoolWindow window = pooling.PlaneWindow(shape);
  return {.batch = shape[0],
          .channels = shape[1],
          .window = window,
          .rule = RuleOf(pooling, window).value_or(Rule::kMax),
          .backward = query.backward,
          .threads = query.threads};
}

Support SupportsWindows(const KernelQuery& query) {
  const Pooling& pooling = PoolingOf(query.layer);
  const PoolWindow window = pooling.PlaneWindow(query.context.inputs[0].shape);
  if (HasEmptyWindow(window.h) || HasEmptyWindow(window.w)) {
    return Support::No("the last window is empty");
  }
  if (!RuleOf(pooling, window)) {
    return Support::No("Caffe does not divide by what lies beyond the padding");
  }
  if (pooling.IsAverage() && IsWholeAxis(window.h) && IsWholeAxis(window.w)) {
    return Support::No("means of whole planes take our own code no longer");
  }
  return {};
}

Support SupportsPrimitive(const KernelQuery& query) {
  try {
    const PoolPrimitive primitive(ConfigOf(query));
    if (primitive.IsReference()) {
      return Support::No("oneDNN has its slow reference only for these windows");
    }
    const size_t index = primitive.IndexBytes();
    if (index > 0 && index != static_cast<size_t>(StoredBytes(query.info.saved[0]))) {
      return Support::No("oneDNN's indices have another type");
    }
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return {};
}

Support Supports(const KernelQuery& query) {
  if (query.deterministic) return Support::No("its bits may depend on the number of threads");
  Support support = SupportsWholeBlocks(query);
  if (!support.yes) return support;
  if (query.context.inputs[0].shape.count() == 0) return Support::No("there is nothing to pool");
  if (query.info.outputs.size() > 1) return Support::No("gives no positions");
  support = PoolingOf(query.layer).SupportsBlocks(query.context.inputs[0].shape);
  if (support.yes) support = SupportsWindows(query);
  return support.yes ? SupportsPrimitive(query) : support;
}

struct State final : KernelState {
  explicit State(const KernelQuery& query) : primitive(ConfigOf(query)) { primitive.Prepare(); }
  PoolPrimitive primitive;
};

void Forward(const Layer&, const ForwardArgs& args) {
  void* index = args.saved.empty() ? nullptr : args.saved[0].raw();
  static_cast<State*>(args.kernel_state)
      ->primitive.Forward(args.inputs[0].data<float>(), args.outputs[0].data<float>(), index,
                          args.scratch);
}

void Backward(const Layer&, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  const void* index = args.saved.empty() ? nullptr : args.saved[0].raw();
  static_cast<State*>(args.kernel_state)
      ->primitive.Backward(index, args.output_grads[0].data<float>(),
                           args.input_grads[0].data<float>(), args.scratch);
}

}  // namespace

Kernel OneDnnPoolingKernel() {
  Kernel row = MakeBlockedRow(Supports, Forward, Backward);
  row.name = "onednn";
  row.forward_scratch = [](const KernelQuery& query) {
    return PoolPrimitive(ConfigOf(query)).ForwardScratch();
  };
  row.backward_scratch = [](const KernelQuery& query) {
    return PoolPrimitive(ConfigOf(query)).BackwardScratch();
  };
  row.make_state = [](const KernelQuery& query) -> std::unique_ptr<KernelState> {
    return std::make_unique<State>(query);
  };
  return row;
}

}  // namespace crema
