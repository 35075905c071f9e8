#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "core/parallel_for.h"
#include "graph/has_packed_weights.h"
#include "layers/blocked_implementation.h"
#include "layers/convolution/convolution_blocked.h"
#include "layers/normalization/group_normalize.h"
#include "math/blocked_winograd.h"
#include "math/image_ranges.h"
#include "math/packed_weight_buffer.h"
#include "math/scratch.h"

namespace crema {
namespace {

PackedConvShape ShapeOf(const ConvGeometry& g) {
  return PackedConvShape(g.window, g.groups, g.in_channels, g.out_channels);
}

ConvGeometry GeometryOf(const OpDesc& query) {
  return MakeConvGeometry(query.layer, query.context.inputs[0].shape);
}

// The passes that use Winograd's algorithm.
struct Passes {
  explicit Passes(const OpDesc& query) {
    const ConvGeometry g = GeometryOf(query);
    const PackedConvShape shape = ShapeOf(g);
    const bool ready = !query.backward;  // where nothing learns, filters are transformed once
    forward = BlockedWinogradPays(shape, WinogradPass::kForward, g.batch, query.threads, ready);
    if (!query.backward) return;
    to_weight =
        BlockedWinogradPays(shape, WinogradPass::kWeightGradient, g.batch, query.threads, false);
    to_input = query.to_input && BlockedWinogradPays(shape, WinogradPass::kDataGradient, g.batch,
                                                     query.threads, false);
    other = !to_weight || (query.to_input && !to_input);
  }
  bool Any() const { return forward || to_weight || to_input; }
  bool NeedsOther() const { return !forward || other; }

  bool forward = false;
  bool to_weight = false;
  bool to_input = false;
  bool other = false;  // a backward pass that oneDNN does
};

Support Supports(const OpDesc& query) {
  if (!HaveBlockedWinograd()) return Support::No("needs a processor with AVX-512");
  const Support blocked = SupportsBlockedConv(query);
  if (!blocked.yes) return blocked;
  const ConvGeometry g = GeometryOf(query);
  if (g.window.axes != 2 || !IsBlockedWinogradShape(ShapeOf(g))) {
    return Support::No("is for 3 x 3 filters with stride 1");
  }
  const int64_t block = ChannelBlock();
  if (g.in_channels % block != 0 || g.out_channels % block != 0) {
    return Support::No("is for channels that fill whole blocks");
  }
  const Passes passes(query);
  if (!passes.Any()) return Support::No("does not pay for these shapes");
  if (passes.NeedsOther()) return HasFastBlockedConv(BlockedConfigOf(query, false));
  return {};
}

// One pass after the other uses the same scratch.
struct ScratchNeeds {
  explicit ScratchNeeds(const OpDesc& query)
      : g(GeometryOf(query)), shape(ShapeOf(g)), threads(query.threads), passes(query) {}

  size_t Filters(WinogradPass pass) const {
    return ScratchBytes<std::byte>(static_cast<int64_t>(BlockedWinogradWeightBytes(shape, pass)));
  }
  size_t Forward(bool keeps_filters) const {
    return (keeps_filters ? 0 : Filters(WinogradPass::kForward)) +
           BlockedWinogradForwardScratch(shape, g.batch, threads) + 2 * kScratchSlack;
  }
  size_t Backward(bool masks) const {
    const size_t masked = masks ? ScratchBytes<float>(g.batch * g.OutImage()) : 0;
    const size_t to_weight =
        passes.to_weight ? BlockedWinogradWeightGradientScratch(shape, g.batch, threads) : 0;
    const size_t to_input = passes.to_input
                                ? Filters(WinogradPass::kDataGradient) +
                                      BlockedWinogradDataGradientScratch(shape, g.batch, threads)
                                : 0;
    const size_t sums = ScratchBytes<double>(g.out_channels);
    return masked + sums + std::max(to_weight, to_input) + 2 * kScratchSlack;
  }

  ConvGeometry g;
  PackedConvShape shape;
  int threads;
  Passes passes;
};

Needs NeedsOfPasses(const OpDesc& query) {
  const ScratchNeeds own(query);
  Needs needs;
  if (own.passes.forward && !query.backward)
    needs.state_bytes = own.Filters(WinogradPass::kForward);
  if (own.passes.forward) needs.forward_scratch = own.Forward(!query.backward);
  const bool masks = ReluOf(query).on || query.output_stride != 0;
  if (query.backward) needs.backward_scratch = own.Backward(masks);
  if (!own.passes.NeedsOther()) return needs;
  const BlockedConv other(BlockedConfigOf(query, false));
  needs.state_bytes += other.PackedBytes();
  if (!own.passes.forward) needs.forward_scratch = other.ForwardScratch();
  if (own.passes.other)
    needs.backward_scratch = std::max(needs.backward_scratch, other.BackwardScratch());
  return needs;
}

// The transformation of filters depends on these.
std::array<int64_t, 4> FilterKey(const PackedConvShape& shape) {
  return {shape.h.in, shape.w.in, shape.h.pad, shape.w.pad};
}

class State final : public ImplementationState, public HasPackedWeights {
 public:
  explicit State(const OpDesc& query)
      : g_(GeometryOf(query)),
        shape_(ShapeOf(g_)),
        passes_(query),
        keeps_(!query.backward),
        epilogue_(query),
        packed_(FilterKey(shape_), BlockedWinogradWeightBytes(shape_, WinogradPass::kForward)) {
    if (passes_.NeedsOther()) {
      other_.emplace(BlockedConfigOf(query, false));
      other_->Prepare();
    }
    if (!passes_.forward) return;
    bias_.resize(static_cast<size_t>(g_.out_channels));
  }

  SharedPackedWeights ExportPacked() const override {
    if (!passes_.forward) return other_->ExportPacked();
    return packed_.Export();
  }
  bool ImportPacked(const SharedPackedWeights& shared) override {
    if (!passes_.forward) return other_->ImportPacked(shared);
    return keeps_ && packed_.Import(shared);
  }

  void Forward(const ForwardArgs& args) {
    const ConvParameters parameters = epilogue_.Read(args);
    const float* x = args.inputs[0].data<float>();
    float* y = args.outputs[0].data<float>();
    const auto* added = static_cast<const float*>(epilogue_.AddedOf(args));
    if (!passes_.forward) {
      return other_->Forward(x, parameters, added, y, args.weights_fixed, args.scratch);
    }
    const int threads = args.context.threads();
    ScratchCutter cutter(args.scratch);
    const float* filters = Filters(parameters, args, &cutter);
    SetBias(parameters);
    const bool biased = parameters.bias != nullptr || parameters.shift != nullptr;
    const size_t scratch = BlockedWinogradForwardScratch(shape_, g_.batch, threads);
    BlockedWinogradForward(shape_, g_.batch, threads, x, filters,
                           {.bias = biased ? bias_.data() : nullptr,
                            .residual = added,
                            .relu = epilogue_.kind().relu(),
                            .y_stride = args.outputs[0].image_stride()},
                           y, {cutter.Take<std::byte>(static_cast<int64_t>(scratch)), scratch});
  }

  void Backward(const Layer& layer, const BackwardArgs& args) {
    BlockedConvGrads grads = BlockedGradsOf(layer, args);
    const auto* dy = static_cast<const float*>(grads.dy);
    ScratchCutter cutter(args.scratch);
    if (passes_.to_weight || passes_.to_input) dy = Masked(args, grads, &cutter);
    const bool learns = grads.dweight != nullptr || grads.dbias != nullptr;
    if (passes_.to_weight && learns) {
      ToWeight(args.context.threads(), grads, dy, cutter);
      grads.dweight = nullptr;
      grads.dbias = nullptr;
    }
    if (passes_.to_input && grads.dx != nullptr) {
      ToInput(args.context.threads(), grads, dy, cutter);
      grads.dx = nullptr;
    }
    // Computes the rest from the unmasked gradient, which is masked there.
    const bool left = grads.dweight != nullptr || grads.dbias != nullptr || grads.dx != nullptr;
    if (left) other_->Backward(grads, args.scratch);
  }

 private:
  const float* Filters(const ConvParameters& parameters, const ForwardArgs& args,
                       ScratchCutter* cutter) {
    const auto transform = [&](std::byte* to) {
      BlockedWinogradWeights(shape_, WinogradPass::kForward, args.context.threads(),
                             parameters.weight, parameters.factor, reinterpret_cast<float*>(to));
    };
    if (keeps_) {
      return reinterpret_cast<const float*>(packed_.Get(args.weights_fixed, transform));
    }
    auto* filters = cutter->Take<std::byte>(
        static_cast<int64_t>(BlockedWinogradWeightBytes(shape_, WinogradPass::kForward)));
    transform(filters);
    return reinterpret_cast<const float*>(filters);
  }

  void SetBias(const ConvParameters& parameters) {
    for (size_t c = 0; c < bias_.size(); ++c) {
      const float own = parameters.bias == nullptr ? 0 : parameters.bias[c];
      bias_[c] =
          parameters.factor == nullptr ? own : own * parameters.factor[c] + parameters.shift[c];
    }
  }

  const float* Masked(const BackwardArgs& args, const BlockedConvGrads& grads,
                      ScratchCutter* cutter) const {
    const FusedRelu relu = epilogue_.kind().relu();
    const auto* y = static_cast<const float*>(grads.y);
    const auto* dy = static_cast<const float*>(grads.dy);
    if (!relu.on && grads.dy_stride == 0) return dy;
    auto* masked = cutter->Take<float>(g_.batch * g_.OutImage());
    GatherMasked<float>(args.context.threads(), g_.batch, g_.OutImage(), relu, {y, grads.y_stride},
                        {dy, grads.dy_stride}, masked);
    return masked;
  }

  void ToWeight(int threads, const BlockedConvGrads& grads, const float* dy,
                ScratchCutter cutter) const {
    if (grads.dbias != nullptr) {
      const Shape shape{g_.batch, g_.out_channels, g_.window.out[0], g_.window.out[1]};
      auto* sums = cutter.Take<double>(g_.out_channels);
      GroupSums(threads, BlockedChannelLayout(shape), dy, sums);
      for (int64_t c = 0; c < g_.out_channels; ++c) grads.dbias[c] += static_cast<float>(sums[c]);
    }
    if (grads.dweight == nullptr) return;
    const size_t scratch = BlockedWinogradWeightGradientScratch(shape_, g_.batch, threads);
    BlockedWinogradWeightGradient(shape_, g_.batch, threads, static_cast<const float*>(grads.x), dy,
                                  grads.dweight,
                                  {cutter.Take<std::byte>(static_cast<int64_t>(scratch)), scratch});
  }

  void ToInput(int threads, const BlockedConvGrads& grads, const float* dy,
               ScratchCutter cutter) const {
    const size_t bytes = BlockedWinogradWeightBytes(shape_, WinogradPass::kDataGradient);
    auto* filters = reinterpret_cast<float*>(cutter.Take<std::byte>(static_cast<int64_t>(bytes)));
    BlockedWinogradWeights(shape_, WinogradPass::kDataGradient, threads, grads.weight, nullptr,
                           filters);
    const size_t scratch = BlockedWinogradDataGradientScratch(shape_, g_.batch, threads);
    BlockedWinogradDataGradient(shape_, g_.batch, threads, dy, filters,
                                static_cast<float*>(grads.dx),
                                {cutter.Take<std::byte>(static_cast<int64_t>(scratch)), scratch});
  }

  const ConvGeometry g_;
  const PackedConvShape shape_;
  const Passes passes_;
  const bool keeps_;  // transformed filters; else they are scratch
  ConvEpilogueNumbers epilogue_;
  std::optional<BlockedConv> other_;
  PackedWeightBuffer<std::array<int64_t, 4>> packed_;  // transformed filters
  std::vector<float> bias_;
};

// Returns the estimated time: the mean over the passes, each by oneDNN if that is faster.
double Seconds(const OpDesc& query) {
  const ConvGeometry g = GeometryOf(query);
  const auto share = [&](WinogradPass pass, bool used) {
    return used ? BlockedWinogradShare(ShapeOf(g), pass, g.batch, query.threads, !query.backward)
                : 1;
  };
  const Passes passes(query);
  double shares = share(WinogradPass::kForward, passes.forward);
  double count = 1;
  if (query.backward) {
    shares += share(WinogradPass::kWeightGradient, passes.to_weight);
    ++count;
  }
  if (query.to_input) {
    shares += share(WinogradPass::kDataGradient, passes.to_input);
    ++count;
  }
  return BlockedConvSeconds(query) * shares / count;
}

class WinogradConvolution final : public Implementation {
 public:
  explicit WinogradConvolution(ImplementationFacts facts) : Implementation(std::move(facts)) {}

  bool CanFuse(const OpDesc& op) const override { return ConvolutionCanFuse(op); }
  Support Accepts(const OpDesc& op) const override {
    return Passes(op).forward ? Support{} : StridedOutputPays(op);
  }
  std::optional<double> Seconds(const OpDesc& op) const override { return crema::Seconds(op); }
  LayerInfo Info(const OpDesc& op) const override { return InfoWithRelu(op); }
  Needs NeedsOf(const OpDesc& op) const override { return NeedsOfPasses(op); }
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    return std::make_unique<State>(op);
  }
  void Forward(const Layer&, const ForwardArgs& args) const override {
    static_cast<State*>(args.implementation_state)->Forward(args);
  }
  void Backward(const Layer& layer, const BackwardArgs& args) const override {
    static_cast<State*>(args.implementation_state)->Backward(layer, args);
  }

 private:
  Support SupportsLayer(const OpDesc& op) const override { return crema::Supports(op); }
};

}  // namespace

ImplementationPtr WinogradConvolutionImplementation() {
  ImplementationFacts facts = BlockedFacts("winograd");
  facts.strided_output = true;
  return std::make_shared<WinogradConvolution>(std::move(facts));
}

}  // namespace crema
