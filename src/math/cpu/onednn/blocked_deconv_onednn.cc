#include <algorithm>

#include "core/parallel_for.h"
#include "math/blocked_bias.h"
#include "math/blocked_deconv.h"
#include "math/cpu/onednn/conv_descs.h"
#include "math/cpu/onednn/pieces.h"
#include "math/packed_weight_buffer.h"

namespace crema {

using dnnl::memory;
using onednn::MakeReorder;
using onednn::MakeRunner;
using onednn::Pieces;
using onednn::Runner;
using onednn::RunReorder;
using onednn::ScratchOf;

namespace {

// Returns the convolution whose passes are used, without bias and ReLU: they follow its backward
// pass.
BlockedConvConfig TransposedOf(const BlockedDeconvConfig& c) {
  return {.shape = c.shape, .relu = {}, .backward = true, .threads = c.threads};
}

}  // namespace

// Names are those of the deconvolution; the primitives have those of the convolution.
struct BlockedDeconv::Parts {
  explicit Parts(const BlockedDeconvConfig& c)
      : config(c),
        plain(onednn::PlainWeights(c.shape)),
        to_input(onednn::MakeForwardDesc(TransposedOf(c))),
        forward(onednn::MakeToInputDesc(TransposedOf(c), to_input)),
        to_weight(onednn::MakeToWeightDesc(TransposedOf(c), to_input)),
        packed(forward.weights_desc(), PackedBytes()) {}

  // Weights that a solver changes are packed in each pass, into scratch.
  size_t RepackedBytes() const { return forward.weights_desc().get_size(); }
  size_t PackedBytes() const { return config.backward ? 0 : RepackedBytes(); }
  int64_t Pixels() const { return config.shape.h.in * config.shape.w.in; }  // of y
  size_t OutputBytes() const { return forward.diff_src_desc().get_size(); }

  void MakePrimitives();
  const std::byte* Packed(const float* weight, bool keep, Pieces* pieces);
  void ToWeight(const ConvGrads& grads, const float* dy, Pieces pieces);
  void ToInput(const ConvGrads& grads, const float* dy, Pieces pieces);

  const BlockedDeconvConfig config;
  const memory::desc plain;
  const onednn::ForwardDesc to_input;
  const onednn::ToInputDesc forward;
  const onednn::ToWeightDesc to_weight;

  Runner run_forward, run_to_input, run_to_weight;
  Runner pack, pack_to_input, unpack;
  PackedWeightBuffer<memory::desc> packed;
};

void BlockedDeconv::Parts::MakePrimitives() {
  run_forward = MakeRunner<dnnl::convolution_backward_data>(forward);
  pack = MakeReorder(plain, forward.weights_desc(), false);
  if (!config.backward) return;
  run_to_input = MakeRunner<dnnl::convolution_forward>(to_input);
  pack_to_input = MakeReorder(plain, to_input.weights_desc(), false);
  run_to_weight = MakeRunner<dnnl::convolution_backward_weights>(to_weight);
  unpack = MakeReorder(to_weight.diff_weights_desc(), plain, true);
}

const std::byte* BlockedDeconv::Parts::Packed(const float* weight, bool keep, Pieces* pieces) {
  const auto pack_into = [&](std::byte* to) { RunReorder(&pack, weight, to); };
  if (PackedBytes() > 0) return packed.Get(keep, pack_into);
  auto* to = pieces->Take<std::byte>(RepackedBytes());
  pack_into(to);
  return to;
}

BlockedDeconv::BlockedDeconv(const BlockedDeconvConfig& config) {
  const onednn::ThreadCount threads(config.threads);
  parts_ = onednn::Try("deconvolution", [&] { return std::make_unique<Parts>(config); });
}

BlockedDeconv::~BlockedDeconv() = default;

bool BlockedDeconv::IsReference() const {
  const Parts& p = *parts_;
  return onednn::IsReference(p.forward) ||
         (p.config.backward &&
          (onednn::IsReference(p.to_input) || onednn::IsReference(p.to_weight)));
}

size_t BlockedDeconv::PackedBytes() const { return parts_->PackedBytes(); }

size_t BlockedDeconv::ForwardScratch() const {
  Pieces pieces(nullptr);
  pieces.Take(ScratchOf(parts_->forward));
  if (parts_->PackedBytes() == 0) pieces.Take(parts_->RepackedBytes());
  return pieces.used();
}

size_t BlockedDeconv::BackwardScratch() const {
  const Parts& p = *parts_;
  if (!p.config.backward) return 0;
  Pieces to_weight(nullptr);
  to_weight.Take(ScratchOf(p.to_weight));
  to_weight.Take(p.to_weight.diff_weights_desc().get_size());
  Pieces to_input(nullptr);
  to_input.Take(ScratchOf(p.to_input));
  to_input.Take(p.to_input.weights_desc().get_size());
  Pieces masked(nullptr);
  if (p.config.relu.on) masked.Take(p.OutputBytes());
  return masked.used() + std::max(to_weight.used(), to_input.used());
}

void BlockedDeconv::Forward(const float* x, const float* weight, const float* bias, float* y,
                            bool keep_weights, std::span<std::byte> scratch) {
  Parts& p = *parts_;
  const onednn::ThreadCount threads(p.config.threads);
  Pieces pieces(scratch.data());
  auto* own = pieces.Take<void>(ScratchOf(p.forward));
  onednn::Try("deconvolution", [&] {
    if (!p.run_forward) p.MakePrimitives();
    p.run_forward.Set(DNNL_ARG_WEIGHTS, p.Packed(weight, keep_weights, &pieces));
    p.run_forward.Set(DNNL_ARG_DIFF_DST, x);
    p.run_forward.Set(DNNL_ARG_DIFF_SRC, y);
    p.run_forward.Set(DNNL_ARG_SCRATCHPAD, own);
    p.run_forward.Run();
  });
  if (bias == nullptr && !p.config.relu.on) return;
  AddBlockedBiasRelu(p.config.threads, p.config.shape.batch, p.config.shape.in_channels, p.Pixels(),
                     bias, p.config.relu, y);
}

void BlockedDeconv::Parts::ToWeight(const ConvGrads& grads, const float* dy, Pieces pieces) {
  run_to_weight.Set(DNNL_ARG_SCRATCHPAD, pieces.Take<void>(ScratchOf(to_weight)));
  auto* gradient = pieces.Take(to_weight.diff_weights_desc().get_size());
  run_to_weight.Set(DNNL_ARG_SRC, dy);
  run_to_weight.Set(DNNL_ARG_DIFF_DST, grads.x);
  run_to_weight.Set(DNNL_ARG_DIFF_WEIGHTS, gradient);
  run_to_weight.Run();
  RunReorder(&unpack, gradient, grads.dweight);
}

void BlockedDeconv::Parts::ToInput(const ConvGrads& grads, const float* dy, Pieces pieces) {
  run_to_input.Set(DNNL_ARG_SCRATCHPAD, pieces.Take<void>(ScratchOf(to_input)));
  auto* repacked = pieces.Take(to_input.weights_desc().get_size());
  RunReorder(&pack_to_input, grads.weight, repacked);
  run_to_input.Set(DNNL_ARG_WEIGHTS, repacked);
  run_to_input.Set(DNNL_ARG_SRC, dy);
  run_to_input.Set(DNNL_ARG_DST, grads.dx);
  run_to_input.Run();
}

void BlockedDeconv::Backward(const ConvGrads& grads, std::span<std::byte> scratch) {
  Parts& p = *parts_;
  const BlockedConvShape& shape = p.config.shape;
  CREMA_CHECK(p.config.backward);
  const onednn::ThreadCount threads(p.config.threads);
  Pieces pieces(scratch.data());
  const float* dy = grads.dy;
  if (p.config.relu.on) {
    auto* masked = pieces.Take(p.OutputBytes());
    const auto count = static_cast<int64_t>(p.OutputBytes() / sizeof(float));
    ParallelFor(p.config.threads, count, 1 << 14, [&](int64_t begin, int64_t end, int) {
      MaskByOutput(end - begin, p.config.relu.slope, grads.y + begin, grads.dy + begin,
                   masked + begin);
    });
    dy = masked;
  }
  onednn::Try("gradient of a deconvolution", [&] {
    if (!p.run_forward) p.MakePrimitives();
    if (grads.dweight != nullptr) p.ToWeight(grads, dy, pieces);
    if (grads.dx != nullptr) p.ToInput(grads, dy, pieces);
  });
  if (grads.dbias == nullptr) return;
  AddBlockedChannelSums(p.config.threads, shape.batch, shape.in_channels, p.Pixels(), dy,
                        grads.dbias);
}

}  // namespace crema
