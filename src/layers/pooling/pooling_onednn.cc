// Implementation "onednn": MAX and AVE pooling of blocked blobs by oneDNN. Forward takes about half
// the time of implementation "blocked", backward a third (bench/results/kernels.md). Both use the
// same indices of maxima, so each could read those that the other saved.
#include <memory>
#include <optional>

#include "layers/blocked_implementation.h"
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

// Returns the rule that divides as Caffe does: by the window without cells beyond the padding.
// Returns nothing if oneDNN has no such rule.
std::optional<Rule> RuleOf(const Pooling& pooling, const PoolWindow& window) {
  if (!pooling.IsAverage()) return Rule::kMax;
  const bool padded = window.h.pad > 0 || window.w.pad > 0;
  if (pooling.ExcludesPad() || !padded) return Rule::kMeanInsideImage;
  if (ReachesBeyondPad(window.h) || ReachesBeyondPad(window.w)) return std::nullopt;
  return Rule::kMeanOfWindow;
}

// Returns the config of one image if outputs are strided: oneDNN has only its reference for all
// images at once.
template <bool kHalves>
PoolPrimitiveConfig ConfigOf(const OpDesc& query) {
  const Pooling& pooling = PoolingOf(query.layer);
  const Shape& shape = query.context.inputs[0].shape;
  const PoolWindow window = pooling.PlaneWindow(shape);
  return {.batch = query.output_stride == 0 ? shape[0] : 1,
          .channels = shape[1],
          .window = window,
          .rule = RuleOf(pooling, window).value_or(Rule::kMax),
          .backward = query.backward,
          .threads = query.threads,
          .halves = kHalves};
}

Support SupportsWindows(const OpDesc& query) {
  const Pooling& pooling = PoolingOf(query.layer);
  const PoolWindow window = pooling.PlaneWindow(query.context.inputs[0].shape);
  if (HasEmptyWindow(window.h) || HasEmptyWindow(window.w)) {
    return Support::No("the last window is empty");
  }
  if (!RuleOf(pooling, window)) {
    return Support::No("Caffe does not count the cells beyond the padding");
  }
  if (pooling.IsAverage() && IsWholeAxis(window.h) && IsWholeAxis(window.w)) {
    return Support::No("means of whole planes take our own code no longer");
  }
  return {};
}

template <bool kHalves>
Support SupportsPrimitive(const OpDesc& query) {
  try {
    const PoolPrimitive primitive(ConfigOf<kHalves>(query));
    if (primitive.IsReference()) {
      return Support::No("oneDNN has its slow reference only for these windows");
    }
    const int64_t runs = query.output_stride == 0 ? 1 : query.context.inputs[0].shape[0];
    const size_t index = primitive.IndexBytes() * static_cast<size_t>(runs);
    if (index > 0 && index != static_cast<size_t>(StoredBytes(query.info.saved[0]))) {
      return Support::No("oneDNN's indices have another type");
    }
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return {};
}

template <bool kHalves>
Support Supports(const OpDesc& query) {
  // oneDNN sums gradients in bfloat16, and its positions in windows of 256 cells and more are
  // wrong.
  if (kHalves && query.backward) return Support::No("rounds sums of gradients to bfloat16");
  if (query.deterministic) return Support::No("its bits may depend on the number of threads");
  Support support = SupportsWholeBlocks(query);
  if (!support.yes) return support;
  if (query.context.inputs[0].shape.count() == 0) return Support::No("there is nothing to pool");
  if (query.info.outputs.size() > 1) return Support::No("gives no positions");
  support = PoolingOf(query.layer).SupportsBlocks(query.context.inputs[0].shape);
  if (support.yes) support = SupportsWindows(query);
  return support.yes ? SupportsPrimitive<kHalves>(query) : support;
}

struct PoolState : ImplementationState {
  explicit PoolState(const PoolPrimitiveConfig& config) : primitive(config) { primitive.Prepare(); }
  PoolPrimitive primitive;
};

template <bool kHalves>
struct State final : PoolState {
  explicit State(const OpDesc& query) : PoolState(ConfigOf<kHalves>(query)) {}
};

// Bytes from one run of the primitive to the next. Dense outputs take a single run.
struct Steps {
  Steps(const Shape& input, const Shape& output, int64_t stride, DType dtype,
        const PoolPrimitive& primitive)
      : runs(stride == 0 ? 1 : output[0]),
        x(input.count(1) * static_cast<int64_t>(SizeOf(dtype))),
        y(stride * static_cast<int64_t>(SizeOf(dtype))),
        index(static_cast<int64_t>(primitive.IndexBytes())) {
    CREMA_CHECK(runs * primitive.Images() == output[0]);
  }
  int64_t runs, x, y, index;
};

const std::byte* Bytes(const ConstTensorView& view) {
  return static_cast<const std::byte*>(view.raw());
}
std::byte* Bytes(const TensorView& view) { return static_cast<std::byte*>(view.raw()); }

void Forward(const Layer&, const ForwardArgs& args) {
  PoolPrimitive& primitive = static_cast<PoolState*>(args.implementation_state)->primitive;
  const ConstTensorView& x = args.inputs[0];
  const TensorView& y = args.outputs[0];
  const Steps steps(x.shape(), y.shape(), y.image_stride(), y.dtype(), primitive);
  std::byte* index = args.saved.empty() ? nullptr : Bytes(args.saved[0]);
  for (int64_t i = 0; i < steps.runs; ++i) {
    primitive.Forward(Bytes(x) + i * steps.x, Bytes(y) + i * steps.y,
                      index == nullptr ? nullptr : index + i * steps.index, args.scratch);
  }
}

void Backward(const Layer&, const BackwardArgs& args) {
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  PoolPrimitive& primitive = static_cast<PoolState*>(args.implementation_state)->primitive;
  const ConstTensorView& dy = args.output_grads[0];
  const Steps steps(dx.shape(), dy.shape(), dy.image_stride(), dy.dtype(), primitive);
  const std::byte* index = args.saved.empty() ? nullptr : Bytes(args.saved[0]);
  for (int64_t i = 0; i < steps.runs; ++i) {
    primitive.Backward(index == nullptr ? nullptr : index + i * steps.index,
                       Bytes(dy) + i * steps.y, Bytes(dx) + i * steps.x, args.scratch);
  }
}

template <bool kHalves>
ImplementationPtr MakeImplementation() {
  const auto forward_scratch = [](const OpDesc& query) {
    return PoolPrimitive(ConfigOf<kHalves>(query)).ForwardScratch();
  };
  const auto backward_scratch = [](const OpDesc& query) {
    return PoolPrimitive(ConfigOf<kHalves>(query)).BackwardScratch();
  };
  ImplementationFacts facts = BlockedFacts("onednn");
  facts.strided_output = true;
  return MakeSimpleImplementation<StatefulImplementation<State<kHalves>>>(
      std::move(facts), {.supports = Supports<kHalves>,
                         .forward = Forward,
                         .backward = Backward,
                         .forward_scratch = forward_scratch,
                         .backward_scratch = backward_scratch});
}

}  // namespace

ImplementationPtr OneDnnPoolingImplementation() { return MakeImplementation<false>(); }
ImplementationPtr OneDnnBF16PoolingImplementation() {
  return StoringBFloat16(MakeImplementation<true>());
}

}  // namespace crema
