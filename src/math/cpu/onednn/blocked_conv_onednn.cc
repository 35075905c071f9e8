#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "core/bfloat16.h"
#include "core/parallel_for.h"
#include "core/tensor.h"
#include "math/blocked_conv.h"
#include "math/blocked_copy.h"
#include "math/cpu/onednn/conv_descs.h"
#include "math/cpu/onednn/pieces.h"

namespace crema {

using dnnl::memory;
using onednn::Args;
using onednn::MakeReorder;
using onednn::Pieces;
using onednn::Runner;
using onednn::ScratchOf;

struct BlockedConv::Parts {
  explicit Parts(const BlockedConvConfig& c)
      : config(c),
        plain_weight(onednn::PlainWeights(c.shape)),
        forward(onednn::MakeForwardDesc(c)) {
    if (!c.backward) return;
    to_weight = onednn::MakeToWeightDesc(c, forward);
    if (c.backward_to_input) to_input = onednn::MakeToInputDesc(c, forward);
  }

  bool Repacks() const { return forward.weights_desc() != plain_weight; }
  bool HasBias() const { return config.bias || config.affine; }
  size_t WeightBytes() const {
    return static_cast<size_t>(config.shape.WeightCount()) * sizeof(float);
  }
  size_t ChannelBytes() const {
    return static_cast<size_t>(config.shape.out_channels) * sizeof(float);
  }
  size_t PackedWeightBytes() const { return (forward.weights_desc().get_size() + 63) / 64 * 64; }
  size_t PackedBytes() const { return PackedWeightBytes() + ChannelBytes(); }
  // A plain input is rounded before it is multiplied.
  bool RoundsInput() const { return config.bfloat16 && config.plain_input; }
  size_t RoundedBytes() const { return RoundsInput() ? forward.src_desc().get_size() : 0; }
  // Weights that a solver changes are packed in each pass, into scratch.
  size_t KeptBytes() const { return config.backward ? 0 : PackedBytes(); }
  size_t OutputBytes() const { return forward.dst_desc().get_size(); }

  void MakePrimitives();
  void PackWeights(const ConvLearned& learned, Pieces* pieces);
  const void* RoundInput(const void* x, Pieces* pieces) const;
  const void* Masked(const BlockedConvGrads& grads, Pieces* pieces) const;
  void ToInput(const BlockedConvGrads& grads, const void* dy, Pieces pieces);
  void ToWeight(const BlockedConvGrads& grads, const void* dy, Pieces pieces);

  const BlockedConvConfig config;
  const memory::desc plain_weight;
  const onednn::ForwardDesc forward;
  std::optional<onednn::ToInputDesc> to_input;
  std::optional<onednn::ToWeightDesc> to_weight;

  std::optional<dnnl::stream> stream;
  Runner run_forward, run_to_input, run_to_weight;
  Runner pack, pack_to_input, unpack;
  Tensor packed;       // weights, then the bias where it is computed
  bool keeps = false;  // they were packed to be kept
};

void BlockedConv::Parts::MakePrimitives() {
  stream.emplace(onednn::Cpu());
  const auto memory_of = onednn::WithoutData;
  Args args{{DNNL_ARG_SRC, memory_of(forward.src_desc())},
            {DNNL_ARG_WEIGHTS, memory_of(forward.weights_desc())},
            {DNNL_ARG_DST, memory_of(forward.dst_desc())},
            {DNNL_ARG_SCRATCHPAD, memory_of(forward.scratchpad_desc())}};
  if (HasBias()) args.emplace(DNNL_ARG_BIAS, memory_of(forward.bias_desc()));
  if (config.sum) {
    args.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(onednn::kSumOp) | DNNL_ARG_SRC_1,
                 memory_of(forward.dst_desc()));
  }
  run_forward = Runner(dnnl::convolution_forward(forward), std::move(args));
  if (Repacks()) pack = MakeReorder(plain_weight, forward.weights_desc(), false);
  if (KeptBytes() > 0) {
    packed = Tensor(Shape{static_cast<int64_t>((KeptBytes() + 63) / 64), 16}, DType::kF32);
  }
  if (to_weight) {
    Args back{{DNNL_ARG_SRC, memory_of(to_weight->src_desc())},
              {DNNL_ARG_DIFF_DST, memory_of(to_weight->diff_dst_desc())},
              {DNNL_ARG_DIFF_WEIGHTS, memory_of(to_weight->diff_weights_desc())},
              {DNNL_ARG_SCRATCHPAD, memory_of(to_weight->scratchpad_desc())}};
    if (HasBias()) back.emplace(DNNL_ARG_DIFF_BIAS, memory_of(to_weight->diff_bias_desc()));
    run_to_weight = Runner(dnnl::convolution_backward_weights(*to_weight), std::move(back));
    unpack = MakeReorder(to_weight->diff_weights_desc(), plain_weight, true);
  }
  if (to_input) {
    Args back{{DNNL_ARG_DIFF_SRC, memory_of(to_input->diff_src_desc())},
              {DNNL_ARG_DIFF_DST, memory_of(to_input->diff_dst_desc())},
              {DNNL_ARG_WEIGHTS, memory_of(to_input->weights_desc())},
              {DNNL_ARG_SCRATCHPAD, memory_of(to_input->scratchpad_desc())}};
    run_to_input = Runner(dnnl::convolution_backward_data(*to_input), std::move(back));
    if (to_input->weights_desc() != plain_weight) {
      pack_to_input = MakeReorder(plain_weight, to_input->weights_desc(), false);
    }
  }
}

// Weights times their factors, in the order of the primitive, and the bias that goes with them.
void BlockedConv::Parts::PackWeights(const ConvLearned& learned, Pieces* pieces) {
  auto* kept = KeptBytes() > 0 ? packed.view().data<float>() : pieces->Take(PackedBytes());
  float* bias = kept + PackedWeightBytes() / sizeof(float);
  const float* weight = learned.weight;
  if (config.affine) {
    const int64_t outputs = config.shape.out_channels;
    const int64_t depth = config.shape.WeightCount() / outputs;
    float* scaled = pack ? pieces->Take(WeightBytes()) : kept;
    ParallelFor(config.threads, outputs, 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o) {
        const float factor = learned.factor[o];
        for (int64_t i = o * depth; i < (o + 1) * depth; ++i) scaled[i] = weight[i] * factor;
        bias[o] = (config.bias ? learned.bias[o] * factor : 0.0F) + learned.shift[o];
      }
    });
    weight = scaled;
  }
  if (pack) {
    pack.Set(DNNL_ARG_FROM, weight);
    pack.Set(DNNL_ARG_TO, kept);
    pack.Run(*stream);
  }
  run_forward.Set(DNNL_ARG_WEIGHTS, pack || config.affine ? kept : weight);
  if (HasBias()) run_forward.Set(DNNL_ARG_BIAS, config.affine ? bias : learned.bias);
}

BlockedConv::BlockedConv(const BlockedConvConfig& config) {
  const onednn::ThreadCount threads(config.threads);
  parts_ = onednn::Try("convolution", [&] { return std::make_unique<Parts>(config); });
}

BlockedConv::~BlockedConv() = default;

bool BlockedConv::IsReference() const {
  const Parts& p = *parts_;
  return onednn::IsReference(p.forward) || (p.to_input && onednn::IsReference(*p.to_input)) ||
         (p.to_weight && onednn::IsReference(*p.to_weight));
}

size_t BlockedConv::KeptBytes() const { return parts_->KeptBytes(); }

size_t BlockedConv::ForwardScratch() const {
  Pieces pieces(nullptr);
  pieces.Take(ScratchOf(parts_->forward));
  pieces.Take(parts_->RoundedBytes());
  if (parts_->config.affine && parts_->Repacks()) pieces.Take(parts_->WeightBytes());
  if (parts_->KeptBytes() == 0) pieces.Take(parts_->PackedBytes());
  return pieces.used();
}

size_t BlockedConv::BackwardScratch() const {
  const Parts& p = *parts_;
  if (!p.to_weight) return 0;
  Pieces to_weight(nullptr);
  to_weight.Take(ScratchOf(*p.to_weight));
  to_weight.Take(p.RoundedBytes());
  to_weight.Take(p.to_weight->diff_weights_desc().get_size());
  to_weight.Take(p.ChannelBytes());
  Pieces to_input(nullptr);
  if (p.to_input) {
    to_input.Take(ScratchOf(*p.to_input));
    to_input.Take(p.to_input->weights_desc().get_size());
  }
  Pieces masked(nullptr);
  if (p.config.relu.on) masked.Take(p.OutputBytes());
  return masked.used() + std::max(to_weight.used(), to_input.used());
}

void BlockedConv::Prepare() {
  if (parts_->stream) return;
  const onednn::ThreadCount threads(parts_->config.threads);
  onednn::Try("convolution", [&] { parts_->MakePrimitives(); });
}

void BlockedConv::Forward(const void* x, const ConvLearned& learned, const void* added, void* y,
                          bool keep_weights, std::span<std::byte> scratch) {
  Prepare();
  Parts& p = *parts_;
  const onednn::ThreadCount threads(p.config.threads);
  Pieces pieces(scratch.data());
  auto* own = pieces.Take<void>(ScratchOf(p.forward));
  onednn::Try("convolution", [&] {
    const bool kept = keep_weights && p.keeps && p.KeptBytes() > 0;
    if (!kept) p.PackWeights(learned, &pieces);
    p.keeps = keep_weights;
    p.run_forward.Set(DNNL_ARG_SRC, p.RoundInput(x, &pieces));
    p.run_forward.Set(DNNL_ARG_DST, y);
    p.run_forward.Set(DNNL_ARG_SCRATCHPAD, own);
    if (p.config.sum) {
      p.run_forward.Set(DNNL_ARG_ATTR_MULTIPLE_POST_OP(onednn::kSumOp) | DNNL_ARG_SRC_1, added);
    }
    p.run_forward.Run(*p.stream);
  });
}

const void* BlockedConv::Parts::RoundInput(const void* x, Pieces* pieces) const {
  if (!RoundsInput()) return x;
  auto* rounded = pieces->Take<BFloat16>(RoundedBytes());
  const auto count = static_cast<int64_t>(RoundedBytes() / sizeof(BFloat16));
  RoundAll(config.threads, count, static_cast<const float*>(x), rounded);
  return rounded;
}

template <typename T>
void MaskOf(int threads, int64_t count, float slope, const BlockedConvGrads& grads, void* masked) {
  const auto* y = static_cast<const T*>(grads.y);
  const auto* dy = static_cast<const T*>(grads.dy);
  ParallelFor(threads, count, 1 << 14, [&](int64_t begin, int64_t end, int) {
    MaskByOutput(end - begin, slope, y + begin, dy + begin, static_cast<T*>(masked) + begin);
  });
}

// What a fused ReLU lets through of dy.
const void* BlockedConv::Parts::Masked(const BlockedConvGrads& grads, Pieces* pieces) const {
  if (!config.relu.on) return grads.dy;
  void* masked = pieces->Take<void>(OutputBytes());
  const size_t size = config.bfloat16 ? sizeof(BFloat16) : sizeof(float);
  (config.bfloat16 ? MaskOf<BFloat16> : MaskOf<float>)(config.threads,
                                                       static_cast<int64_t>(OutputBytes() / size),
                                                       config.relu.slope, grads, masked);
  return masked;
}

void BlockedConv::Parts::ToWeight(const BlockedConvGrads& grads, const void* dy, Pieces pieces) {
  run_to_weight.Set(DNNL_ARG_SCRATCHPAD, pieces.Take<void>(ScratchOf(*to_weight)));
  auto* gradient = pieces.Take(to_weight->diff_weights_desc().get_size());
  auto* bias = pieces.Take(ChannelBytes());
  run_to_weight.Set(DNNL_ARG_SRC, RoundInput(grads.x, &pieces));
  run_to_weight.Set(DNNL_ARG_DIFF_DST, dy);
  run_to_weight.Set(DNNL_ARG_DIFF_WEIGHTS, gradient);
  if (HasBias()) run_to_weight.Set(DNNL_ARG_DIFF_BIAS, bias);
  run_to_weight.Run(*stream);
  if (grads.dweight != nullptr) {
    unpack.Set(DNNL_ARG_FROM, gradient);
    unpack.Set(DNNL_ARG_TO, grads.dweight);
    unpack.Run(*stream);
  }
  if (grads.dbias != nullptr) {
    for (int64_t o = 0; o < config.shape.out_channels; ++o) grads.dbias[o] += bias[o];
  }
}

void BlockedConv::Parts::ToInput(const BlockedConvGrads& grads, const void* dy, Pieces pieces) {
  run_to_input.Set(DNNL_ARG_SCRATCHPAD, pieces.Take<void>(ScratchOf(*to_input)));
  const void* weight = grads.weight;
  if (pack_to_input) {
    auto* repacked = pieces.Take<void>(to_input->weights_desc().get_size());
    pack_to_input.Set(DNNL_ARG_FROM, weight);
    pack_to_input.Set(DNNL_ARG_TO, repacked);
    pack_to_input.Run(*stream);
    weight = repacked;
  }
  run_to_input.Set(DNNL_ARG_WEIGHTS, weight);
  run_to_input.Set(DNNL_ARG_DIFF_DST, dy);
  run_to_input.Set(DNNL_ARG_DIFF_SRC, grads.dx);
  run_to_input.Run(*stream);
}

void BlockedConv::Backward(const BlockedConvGrads& grads, std::span<std::byte> scratch) {
  Prepare();
  Parts& p = *parts_;
  CREMA_CHECK(p.to_weight && !p.config.affine && !p.config.sum);
  const onednn::ThreadCount threads(p.config.threads);
  Pieces pieces(scratch.data());
  const void* dy = p.Masked(grads, &pieces);
  onednn::Try("gradient of a convolution", [&] {
    if (grads.dweight != nullptr || grads.dbias != nullptr) p.ToWeight(grads, dy, pieces);
    if (grads.dx != nullptr) p.ToInput(grads, dy, pieces);
  });
}

}  // namespace crema
