#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device_memory.h"
#include "core/strings.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "layers/gpu_implementations.h"
#include "math/scratch.h"
#include "plan/tunes_engines.h"

namespace crema {
namespace {

// A query rewritten for blobs of half precision.
struct HalfQuery {
  // If `implementation` is not null, `info` is its Info() instead of the layer's Infer().
  HalfQuery(const OpDesc& query, DType dtype, const Implementation* implementation = nullptr)
      : inputs(query.context.inputs.begin(), query.context.inputs.end()), context(query.context) {
    for (BlobSpec& input : inputs) input = {input.shape, dtype};
    context.inputs = inputs;
    context.dtype = dtype;
    info = query.layer.Infer(context);
    if (implementation != nullptr) info = implementation->Info(Of(query));
  }
  OpDesc Of(const OpDesc& query) const { return query.With(context, info); }

  std::vector<BlobSpec> inputs;
  InferContext context;
  LayerInfo info;
};

size_t ParameterBytes(const OpDesc& query, DType dtype) {
  size_t bytes = kScratchSlack;
  for (const ParameterInfo& blob : query.info.parameters) {
    if (blob.statistic) continue;
    bytes += ScratchBytes<std::byte>(blob.shape.count() * static_cast<int64_t>(SizeOf(dtype)));
  }
  return bytes;
}

// Views of the rounded blobs, and the state of the wrapped implementation. The vectors keep their
// capacity between passes.
struct HalfState final : ImplementationState, TunesEngines {
  void UseTimer(std::shared_ptr<ImplementationTimer> timer) override {
    auto* tunes = dynamic_cast<TunesEngines*>(of_implementation.get());
    if (tunes != nullptr) tunes->UseTimer(std::move(timer));
  }
  explicit HalfState(const LayerInfo& info) {
    for (const ParameterInfo& blob : info.parameters) rounds.push_back(!blob.statistic);
  }
  std::vector<bool> rounds;  // by parameter; statistics are not rounded
  std::vector<ConstTensorView> parameters;
  std::vector<TensorView> parameter_grads;
  std::vector<Tensor> kept;                                // rounded fixed weights, by parameter
  std::unique_ptr<ImplementationState> of_implementation;  // null if it has none
};

template <typename To>
void RoundTo(const CudaQueue& queue, int64_t count, const float* x, To* y) {
  SetElements(queue, "RoundLearned", count, y, [=] CREMA_HOST_DEVICE(int64_t i) { return x[i]; });
}

template <typename From>
void AddRounded(const CudaQueue& queue, int64_t count, const From* x, float* sum) {
  SetElements(queue, "AddGradient", count, sum,
              [=] CREMA_HOST_DEVICE(int64_t i) { return sum[i] + ToFloat(x[i]); });
}

class ParameterHalves {
 public:
  ParameterHalves(const ExecContext& context, DType dtype, std::span<std::byte> scratch)
      : queue_(BoundQueue(context)), context_(context), dtype_(dtype), cutter_(scratch) {}

  // `fixed` is ForwardArgs::weights_fixed: blobs are then rounded once and cached in `state`.
  void Round(std::span<const ConstTensorView> parameters, bool fixed, HalfState* state) {
    state->parameters.clear();
    state->kept.resize(parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (i >= state->rounds.size() || !state->rounds[i]) {  // of a fused layer, or a statistic
        state->parameters.push_back(parameters[i]);
      } else if (fixed) {
        state->parameters.push_back(Rounded(parameters[i], &state->kept[i]));
      } else {
        const TensorView half = Take(parameters[i].shape());
        RoundInto(parameters[i], half);
        state->parameters.push_back(half);
      }
    }
  }
  // Provides zeroed half-precision gradients for those that are needed. Gradients of fused layers,
  // whose blobs are not rounded, are passed on.
  void TakeGradients(std::span<const TensorView> grads, HalfState* state) {
    std::vector<TensorView>& halves = state->parameter_grads;
    halves.clear();
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].empty() || i >= state->rounds.size()) {
        halves.push_back(grads[i]);
        continue;
      }
      halves.push_back(Take(grads[i].shape()));
      FillWith(context_, halves.back(), 0);
    }
  }
  void AddGradients(const HalfState& state, std::span<const TensorView> grads) {
    const std::vector<TensorView>& halves = state.parameter_grads;
    for (size_t i = 0; i < std::min(grads.size(), state.rounds.size()); ++i) {
      if (grads[i].empty()) continue;
      DispatchCudaFloat(dtype_, [&]<typename T>(T) {
        AddRounded(queue_, grads[i].count(), Elements<T>(halves[i]), Elements<float>(grads[i]));
      });
    }
  }
  std::span<std::byte> Rest() { return cutter_.Rest(); }

 private:
  void RoundInto(const ConstTensorView& blob, const TensorView& half) const {
    DispatchCudaFloat(dtype_, [&]<typename T>(T) {
      RoundTo(queue_, blob.count(), Elements<float>(blob), Elements<T>(half));
    });
  }
  ConstTensorView Rounded(const ConstTensorView& blob, Tensor* kept) const {
    if (kept->view().empty()) {
      *kept = Tensor(blob.shape(), dtype_, context_.allocator());
      RoundInto(blob, kept->view());
    }
    return kept->view();
  }
  TensorView Take(const Shape& shape) {
    const int64_t bytes = shape.count() * static_cast<int64_t>(SizeOf(dtype_));
    return {cutter_.Take<std::byte>(bytes), shape, dtype_, context_.device()};
  }

  const CudaQueue& queue_;
  const ExecContext& context_;
  const DType dtype_;
  ScratchCutter cutter_;
};

Support IsOfF32(const OpDesc& query) {
  const auto is_f32 = [](const BlobSpec& spec) { return spec.dtype == DType::kF32; };
  if (std::ranges::all_of(query.context.inputs, is_f32) &&
      std::ranges::all_of(query.info.outputs, is_f32)) {
    return {};
  }
  return Support::No("rounds blobs of f32 only");
}

class HalfImplementation final : public ImplementationAdapter {
 public:
  HalfImplementation(const ImplementationPtr& own, DType dtype)
      : ImplementationAdapter(FactsOf(*own, dtype), own), dtype_(dtype) {}

  bool CanFuse(const OpDesc& op) const override { return own().CanFuse(Asked(op).Of(op)); }
  Support Accepts(const OpDesc& op) const override { return own().Accepts(Asked(op).Of(op)); }
  std::optional<double> Seconds(const OpDesc& op) const override {
    return own().Seconds(HalfQuery(op, dtype_).Of(op));
  }
  // Saved tensors are of half precision too.
  LayerInfo Info(const OpDesc& op) const override {
    const HalfQuery asked = Asked(op);
    LayerInfo info = op.info;
    info.in_place = info.in_place && asked.info.in_place;
    info.saved = asked.info.saved;
    info.backward_reads_input = asked.info.backward_reads_input;
    info.backward_reads_output = asked.info.backward_reads_output;
    return info;
  }
  Needs NeedsOf(const OpDesc& op) const override {
    const size_t parameter_bytes = ParameterBytes(op, dtype_);
    Needs needs = own().NeedsOf(Asked(op).Of(op));
    needs.forward_scratch += parameter_bytes;
    if (op.backward) needs.backward_scratch += 2 * parameter_bytes;
    if (!op.backward) needs.state_bytes += parameter_bytes;
    return needs;
  }
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    auto state = std::make_unique<HalfState>(op.info);
    state->of_implementation = own().MakeState(Asked(op).Of(op));
    return state;
  }
  void Forward(const Layer& layer, const ForwardArgs& args) const override {
    auto& state = *static_cast<HalfState*>(args.implementation_state);
    ForwardArgs half = args;
    half.implementation_state = state.of_implementation.get();
    ParameterHalves halves(args.context, dtype_, args.scratch);
    halves.Round(args.parameters, args.weights_fixed, &state);
    half.parameters = state.parameters;
    half.scratch = halves.Rest();
    own().Forward(layer, half);
  }
  void Backward(const Layer& layer, const BackwardArgs& args) const override {
    auto& state = *static_cast<HalfState*>(args.implementation_state);
    BackwardArgs half = args;
    half.implementation_state = state.of_implementation.get();
    ParameterHalves halves(args.context, dtype_, args.scratch);
    halves.Round(args.parameters, false, &state);
    halves.TakeGradients(args.parameter_grads, &state);
    half.parameters = state.parameters;
    half.parameter_grads = state.parameter_grads;
    half.scratch = halves.Rest();
    own().Backward(layer, half);
    halves.AddGradients(state, args.parameter_grads);
  }

 private:
  static ImplementationFacts FactsOf(ImplementationFacts facts, DType dtype) {
    facts.name += StrCat(" ", ToString(dtype));
    facts.input_format.type = facts.output_format.type = dtype;
    return facts;
  }
  Support SupportsLayer(const OpDesc& op) const override {
    const Precision precision = dtype_ == DType::kBF16 ? BF16 : FP16;
    if (op.precision != precision) {
      return Support::No(StrCat("is for precision: ", Precision_Name(precision)));
    }
    if (Support support = IsOfF32(op); !support.yes) return support;
    return own().Supports(HalfQuery(op, dtype_).Of(op));
  }
  HalfQuery Asked(const OpDesc& op) const { return {op, dtype_, &own()}; }

  const DType dtype_;
};

}  // namespace

void AddHalfImplementations(Registry* registry) {
  for (const std::string& type : registry->Names()) {
    if (!registry->Find(type)->traits.fits_16_bits) continue;
    // The implementations for f32 blobs; they dispatch on the element type.
    AddVariants(type, *registry, [&](const ImplementationPtr& own) {
      for (const DType dtype : {DType::kBF16, DType::kF16})
        registry->AddImplementation(type, std::make_shared<HalfImplementation>(own, dtype));
    });
  }
}

}  // namespace crema
