#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device_memory.h"
#include "core/strings.h"
#include "core/tensor.h"
#include "layers/gpu_implementation.h"
#include "layers/half_implementations.h"
#include "math/scratch.h"
#include "plan/tunes_engines.h"

namespace crema {
namespace {

struct Halves {
  DType dtype;
  MemoryFormat plain, channels_last;
  Precision precision;
  const char* name;

  MemoryFormat In(MemoryFormat format) const {
    return IsChannelsLast(format) ? channels_last : plain;
  }
};
constexpr std::array<Halves, 2> kHalves{
    Halves{DType::kBF16, MemoryFormat::kPlainBF16, MemoryFormat::kChannelsLastBF16, BF16, "bf16"},
    Halves{DType::kF16, MemoryFormat::kPlainF16, MemoryFormat::kChannelsLastF16, FP16, "f16"}};

bool IsForF32(const Implementation& implementation) {
  return implementation.device == DeviceType::kCuda &&
         RowMajor(implementation.input_format) == MemoryFormat::kPlain &&
         RowMajor(implementation.output_format) == MemoryFormat::kPlain;
}

// The question as an implementation on halves is asked it.
struct HalfQuery {
  // `implementation`: with what it makes of Infer's answer; null: that answer.
  HalfQuery(const OpDesc& query, DType dtype, const Implementation* implementation)
      : inputs(query.context.inputs.begin(), query.context.inputs.end()), context(query.context) {
    for (BlobSpec& input : inputs) input = {input.shape, dtype};
    context.inputs = inputs;
    context.dtype = dtype;
    info = query.layer.Infer(context);
    if (implementation != nullptr && implementation->info) info = implementation->info(Of(query));
  }
  OpDesc Of(const OpDesc& query) const {
    return {.layer = query.layer,
            .context = context,
            .info = info,
            .threads = query.threads,
            .backward = query.backward,
            .to_input = query.to_input,
            .deterministic = query.deterministic,
            .precision = query.precision,
            .fused = query.fused,
            .gpu = query.gpu,
            .norm_fusion = query.norm_fusion};
  }

  std::vector<BlobSpec> inputs;
  InferContext context;
  LayerInfo info;
};

size_t BytesOfLearned(const OpDesc& query, DType dtype) {
  size_t bytes = kScratchSlack;
  for (const LearnedBlob& blob : query.info.learned) {
    if (blob.statistic) continue;
    bytes += ScratchBytes<std::byte>(blob.shape.count() * static_cast<int64_t>(SizeOf(dtype)));
  }
  return bytes;
}

// Views of the rounded blobs, which have room from the first pass on; and the implementation's own
// state.
struct HalfState final : ImplementationState, TunesEngines {
  void UseTimer(std::shared_ptr<ImplementationTimer> timer) override {
    auto* tunes = dynamic_cast<TunesEngines*>(of_implementation.get());
    if (tunes != nullptr) tunes->UseTimer(std::move(timer));
  }
  explicit HalfState(const LayerInfo& info) {
    for (const LearnedBlob& blob : info.learned) rounds.push_back(!blob.statistic);
  }
  std::vector<bool> rounds;  // by learned blob: statistics are read and updated as they are
  std::vector<ConstTensorView> learned;
  std::vector<TensorView> learned_grads;
  std::vector<Tensor> kept;  // of fixed weights, by learned blob: rounded once
  std::unique_ptr<ImplementationState> of_implementation;  // null: it has none
};

template <typename To>
void RoundTo(const CudaQueue& queue, int64_t count, const float* x, To* y) {
  ForElements(queue, "RoundLearned", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { y[i] = FromFloat<To>(x[i]); });
}

template <typename From>
void AddRounded(const CudaQueue& queue, int64_t count, const From* x, float* sum) {
  ForElements(queue, "AddGradient", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { sum[i] += ToFloat(x[i]); });
}

class LearnedHalves {
 public:
  LearnedHalves(const ExecContext& context, DType dtype, std::span<std::byte> scratch)
      : queue_(BoundQueue(context)), context_(context), dtype_(dtype), cutter_(scratch) {}

  // `fixed`: ForwardArgs::weights_fixed.
  void Round(std::span<const ConstTensorView> learned, bool fixed, HalfState* state) {
    state->learned.clear();
    state->kept.resize(learned.size());
    for (size_t i = 0; i < learned.size(); ++i) {
      if (i >= state->rounds.size() || !state->rounds[i]) {  // of layers that are fused, too
        state->learned.push_back(learned[i]);
      } else if (fixed) {
        state->learned.push_back(Rounded(learned[i], &state->kept[i]));
      } else {
        const TensorView half = Take(learned[i].shape());
        RoundInto(learned[i], half);
        state->learned.push_back(half);
      }
    }
  }
  // Of those that are wanted, zeroed; those of fused layers, whose blobs are not rounded either,
  // as they are.
  void TakeGradients(std::span<const TensorView> grads, HalfState* state) {
    std::vector<TensorView>& halves = state->learned_grads;
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
    const std::vector<TensorView>& halves = state.learned_grads;
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

void HalfForward(const Implementation& implementation, DType dtype, const Layer& layer,
                 const ForwardArgs& args) {
  auto& state = *static_cast<HalfState*>(args.implementation_state);
  ForwardArgs half = args;
  half.implementation_state = state.of_implementation.get();
  LearnedHalves halves(args.context, dtype, args.scratch);
  halves.Round(args.learned, args.weights_fixed, &state);
  half.learned = state.learned;
  half.scratch = halves.Rest();
  implementation.forward(layer, half);
}

void HalfBackward(const Implementation& implementation, DType dtype, const Layer& layer,
                  const BackwardArgs& args) {
  auto& state = *static_cast<HalfState*>(args.implementation_state);
  BackwardArgs half = args;
  half.implementation_state = state.of_implementation.get();
  LearnedHalves halves(args.context, dtype, args.scratch);
  halves.Round(args.learned, false, &state);
  halves.TakeGradients(args.learned_grads, &state);
  half.learned = state.learned;
  half.learned_grads = state.learned_grads;
  half.scratch = halves.Rest();
  implementation.backward(layer, half);
  halves.AddGradients(state, args.learned_grads);
}

Support SupportsHalves(const Implementation& implementation, const Halves& halves,
                       const OpDesc& query) {
  if (query.precision != halves.precision) {
    return Support::No(StrCat("is for precision: ", Precision_Name(halves.precision)));
  }
  const auto is_f32 = [](const BlobSpec& spec) { return spec.dtype == DType::kF32; };
  if (!std::ranges::all_of(query.context.inputs, is_f32) ||
      !std::ranges::all_of(query.info.outputs, is_f32)) {
    return Support::No("rounds blobs of f32 only");
  }
  const HalfQuery half(query, halves.dtype, nullptr);
  return implementation.supports ? implementation.supports(half.Of(query)) : Support{};
}

Implementation OnHalves(const Implementation& implementation, const Halves& halves) {
  const DType dtype = halves.dtype;
  Implementation half;
  half.name = StrCat(implementation.name, " ", halves.name);
  half.device = implementation.device;
  half.input_format = halves.In(implementation.input_format);
  half.output_format = halves.In(implementation.output_format);
  half.supports = [=](const OpDesc& query) {
    return SupportsHalves(implementation, halves, query);
  };
  half.forward = [=](const Layer& layer, const ForwardArgs& args) {
    HalfForward(implementation, dtype, layer, args);
  };
  half.backward = [=](const Layer& layer, const BackwardArgs& args) {
    HalfBackward(implementation, dtype, layer, args);
  };
  half.forward_scratch = [=](const OpDesc& query) {
    const HalfQuery asked(query, dtype, &implementation);
    return BytesOfLearned(query, dtype) + ForwardScratchOf(&implementation, asked.Of(query));
  };
  half.backward_scratch = [=](const OpDesc& query) {
    const HalfQuery asked(query, dtype, &implementation);
    return 2 * BytesOfLearned(query, dtype) + BackwardScratchOf(&implementation, asked.Of(query));
  };
  half.make_state = [=](const OpDesc& query) -> std::unique_ptr<ImplementationState> {
    auto state = std::make_unique<HalfState>(query.info);
    if (implementation.make_state)
      state->of_implementation =
          implementation.make_state(HalfQuery(query, dtype, &implementation).Of(query));
    return state;
  };
  half.state_bytes = [=](const OpDesc& query) -> size_t {
    const size_t own =
        implementation.state_bytes
            ? implementation.state_bytes(HalfQuery(query, dtype, &implementation).Of(query))
            : 0;
    return own + (query.backward ? 0 : BytesOfLearned(query, dtype));
  };
  if (implementation.seconds) {
    half.seconds = [=](const OpDesc& query) {
      return implementation.seconds(HalfQuery(query, dtype, nullptr).Of(query));
    };
  }
  if (implementation.can_fuse) {
    half.can_fuse = [=](const OpDesc& query) {
      return implementation.can_fuse(HalfQuery(query, dtype, &implementation).Of(query));
    };
  }
  const auto on_halves = [=](const auto& asked) {
    return [=](const OpDesc& query) {
      return asked(HalfQuery(query, dtype, &implementation).Of(query));
    };
  };
  if (implementation.supports_norm_fusion)
    half.supports_norm_fusion = on_halves(implementation.supports_norm_fusion);
  if (implementation.supports_fusion_as_norm)
    half.supports_fusion_as_norm = on_halves(implementation.supports_fusion_as_norm);
  // What is saved is of halves too.
  half.info = [=](const OpDesc& query) {
    const HalfQuery asked(query, dtype, &implementation);
    LayerInfo info = query.info;
    info.in_place = info.in_place && asked.info.in_place;
    info.saved = asked.info.saved;
    info.backward_reads_input = asked.info.backward_reads_input;
    info.backward_reads_output = asked.info.backward_reads_output;
    return info;
  };
  return half;
}

}  // namespace

void AddHalfImplementations(Registry* registry) {
  for (const std::string& type : registry->Names()) {
    if (!registry->Find(type)->traits.fits_16_bits) continue;
    // Those for blobs of f32, which take their element type as it comes.
    std::vector<Implementation> implementations;
    for (const Implementation& implementation : registry->Find(type)->implementations) {
      if (IsForF32(implementation)) implementations.push_back(implementation);
    }
    CREMA_CHECK(!implementations.empty());
    std::ranges::reverse(implementations);  // each goes to the front
    for (const Implementation& implementation : implementations) {
      for (const Halves& halves : kHalves)
        registry->AddImplementation(type, OnHalves(implementation, halves));
    }
  }
}

}  // namespace crema
