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
#include "math/cpu/onednn/own_weight_gradient.h"
#include "math/cpu/onednn/pieces.h"
#include "math/image_ranges.h"

namespace crema {

using dnnl::memory;
using onednn::Args;
using onednn::MakeReorder;
using onednn::Pieces;
using onednn::Runner;
using onednn::ScratchOf;

namespace {

// What Forward is made of: the whole batch on all threads, or one image on one.
onednn::ForwardDesc MakeForward(BlockedConvConfig config) {
  if (config.y_stride == 0) return onednn::MakeForwardDesc(config);
  const onednn::ThreadCount one(1);
  config.shape.batch = 1;
  return onednn::MakeForwardDesc(config);
}

}  // namespace

namespace {

// Weights, then the bias where it is computed.
struct PackedConv final : PackedWeights {
  PackedConv(const memory::desc& of, bool is_affine, size_t bytes)
      : desc(of),
        affine(is_affine),
        values(Shape{static_cast<int64_t>((bytes + 63) / 64), 16}, DType::kF32) {}

  const memory::desc desc;
  const bool affine;
  Tensor values;
};

}  // namespace

struct BlockedConv::Parts {
  explicit Parts(const BlockedConvConfig& c)
      : config(c), plain_weight(onednn::PlainWeights(c.shape)), forward(MakeForward(c)) {
    if (!c.backward) return;
    const onednn::ForwardDesc hint = ByImage() ? onednn::MakeForwardDesc(c) : forward;
    to_weight = onednn::MakeToWeightDesc(c, hint);
    own_to_weight = onednn::OwnWeightGradient::Choose(c, *to_weight);
    if (own_to_weight) to_weight.reset();
    if (c.backward_to_input) to_input = onednn::MakeToInputDesc(c, hint);
  }

  bool ByImage() const { return config.y_stride != 0; }
  // Images of the batch that are computed apart, and threads that do so.
  int64_t Runs() const { return ByImage() ? config.shape.batch : 1; }
  size_t Workers() const {
    return ByImage() ? static_cast<size_t>(ParallelWorkers(config.threads, Runs(), 1)) : 1;
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
  size_t RepackedBytes() const { return PackedWeightBytes() + ChannelBytes(); }
  // A plain input is rounded before it is multiplied.
  bool RoundsInput() const { return config.bfloat16 && config.plain_input; }
  size_t RoundedBytes() const { return RoundsInput() ? InputBytes() : 0; }
  // Weights that a solver changes are packed in each pass, into scratch.
  size_t PackedBytes() const { return config.backward ? 0 : RepackedBytes(); }
  size_t InputBytes() const { return static_cast<size_t>(Runs()) * forward.src_desc().get_size(); }
  size_t OutputBytes() const { return static_cast<size_t>(Runs()) * forward.dst_desc().get_size(); }
  size_t ElementSize() const { return config.bfloat16 ? sizeof(BFloat16) : sizeof(float); }

  void MakePrimitives();
  Runner MakeForwardRunner() const;
  std::shared_ptr<PackedConv> NewPacked() const {
    return std::make_shared<PackedConv>(forward.weights_desc(), config.affine, PackedBytes());
  }
  void Pack(const ConvLearned& learned, Pieces* pieces);
  void PackWeights(const ConvLearned& learned, float* to, Pieces* pieces);
  void SetWeights(const ConvLearned& learned, const float* packed);
  // Images [begin, end) of the runs.
  void RunForward(size_t worker, int64_t begin, int64_t end, const void* x, const void* added,
                  void* y);
  const void* RoundInput(const void* x, Pieces* pieces) const;
  const void* Masked(const BlockedConvGrads& grads, Pieces* pieces) const;
  void ToInput(const BlockedConvGrads& grads, const void* dy, Pieces pieces);
  void ToWeight(const BlockedConvGrads& grads, const void* dy, Pieces pieces);
  size_t ToWeightScratch() const;

  const BlockedConvConfig config;
  const memory::desc plain_weight;
  const onednn::ForwardDesc forward;
  std::optional<onednn::ToInputDesc> to_input;
  std::optional<onednn::ToWeightDesc> to_weight;
  std::optional<onednn::OwnWeightGradient> own_to_weight;  // instead

  std::optional<dnnl::stream> stream;
  std::vector<Runner> run_forward;  // by worker
  Runner run_to_input, run_to_weight;
  Runner pack, pack_to_input, unpack;
  std::shared_ptr<PackedConv> packed;  // null where nothing was kept
  bool keeps = false;                  // they were packed to be kept
  bool taken = false;                  // by another one, and are not set yet
};

Runner BlockedConv::Parts::MakeForwardRunner() const {
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
  return {dnnl::convolution_forward(forward), std::move(args)};
}

void BlockedConv::Parts::MakePrimitives() {
  stream.emplace(onednn::Cpu());
  const auto memory_of = onednn::WithoutData;
  {
    // oneDNN keeps primitives by the number of threads of now: with another one than that of the
    // description it may give one whose scratch is larger than what was booked.
    const onednn::ThreadCount as_described(ByImage() ? 1 : config.threads);
    for (size_t w = 0; w < Workers(); ++w) run_forward.push_back(MakeForwardRunner());
  }
  if (Repacks()) pack = MakeReorder(plain_weight, forward.weights_desc(), false);
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
void BlockedConv::Parts::PackWeights(const ConvLearned& learned, float* kept, Pieces* pieces) {
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
}

void BlockedConv::Parts::SetWeights(const ConvLearned& learned, const float* kept) {
  const float* bias = kept + PackedWeightBytes() / sizeof(float);
  for (Runner& run : run_forward) {
    run.Set(DNNL_ARG_WEIGHTS, pack || config.affine ? kept : learned.weight);
    if (HasBias()) run.Set(DNNL_ARG_BIAS, config.affine ? bias : learned.bias);
  }
}

void BlockedConv::Parts::Pack(const ConvLearned& learned, Pieces* pieces) {
  // Not before, as it may be taken from another one; and not where others read.
  if (PackedBytes() > 0 && packed.use_count() != 1) packed = NewPacked();
  float* to = packed ? packed->values.view().data<float>() : pieces->Take(RepackedBytes());
  PackWeights(learned, to, pieces);
  SetWeights(learned, to);
}

SharedPackedWeights BlockedConv::ExportPacked() const {
  return parts_->keeps ? parts_->packed : nullptr;
}

bool BlockedConv::ImportPacked(const SharedPackedWeights& shared) {
  Parts& p = *parts_;
  const auto packed = std::dynamic_pointer_cast<const PackedConv>(shared);
  if (packed == nullptr || p.PackedBytes() == 0 || packed->affine != p.config.affine ||
      packed->desc != p.forward.weights_desc()) {
    return false;
  }
  p.packed = std::const_pointer_cast<PackedConv>(packed);  // Pack leaves it as it is
  p.keeps = p.taken = true;
  return true;
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

size_t BlockedConv::PackedBytes() const { return parts_->PackedBytes(); }

size_t BlockedConv::ForwardScratch() const {
  Pieces pieces(nullptr);
  for (size_t w = 0; w < parts_->Workers(); ++w) pieces.Take(ScratchOf(parts_->forward));
  pieces.Take(parts_->RoundedBytes());
  if (parts_->config.affine && parts_->Repacks()) pieces.Take(parts_->WeightBytes());
  if (parts_->PackedBytes() == 0) pieces.Take(parts_->RepackedBytes());
  return pieces.used();
}

size_t BlockedConv::BackwardScratch() const {
  const Parts& p = *parts_;
  if (!p.config.backward) return 0;
  Pieces to_input(nullptr);
  if (p.to_input) {
    to_input.Take(ScratchOf(*p.to_input));
    to_input.Take(p.to_input->weights_desc().get_size());
  }
  Pieces masked(nullptr);
  if (p.config.relu.on || p.ByImage()) masked.Take(p.OutputBytes());
  return masked.used() + std::max(p.ToWeightScratch(), to_input.used());
}

size_t BlockedConv::Parts::ToWeightScratch() const {
  if (own_to_weight) return own_to_weight->Scratch();
  Pieces pieces(nullptr);
  pieces.Take(ScratchOf(*to_weight));
  pieces.Take(RoundedBytes());
  pieces.Take(to_weight->diff_weights_desc().get_size());
  pieces.Take(ChannelBytes());
  return pieces.used();
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
  for (Runner& run : p.run_forward) {
    run.Set(DNNL_ARG_SCRATCHPAD, pieces.Take<void>(ScratchOf(p.forward)));
  }
  onednn::Try("convolution", [&] {
    const bool kept = keep_weights && p.keeps && p.PackedBytes() > 0;
    if (!kept) p.Pack(learned, &pieces);
    if (kept && p.taken) p.SetWeights(learned, p.packed->values.view().data<float>());
    p.taken = false;
    p.keeps = keep_weights;
    x = p.RoundInput(x, &pieces);
    if (!p.ByImage()) return p.RunForward(0, 0, 1, x, added, y);
    const onednn::ThreadCount one(1);
    ParallelFor(p.config.threads, p.Runs(), 1, [&](int64_t begin, int64_t end, int worker) {
      p.RunForward(static_cast<size_t>(worker), begin, end, x, added, y);
    });
  });
}

void BlockedConv::Parts::RunForward(size_t worker, int64_t begin, int64_t end, const void* x,
                                    const void* added, void* y) {
  const auto x_image = static_cast<int64_t>(forward.src_desc().get_size());
  const auto y_image = static_cast<int64_t>(forward.dst_desc().get_size());
  const int64_t y_step = config.y_stride * static_cast<int64_t>(ElementSize());
  Runner& run = run_forward[worker];
  for (int64_t i = begin; i < end; ++i) {
    run.Set(DNNL_ARG_SRC, static_cast<const std::byte*>(x) + i * x_image);
    run.Set(DNNL_ARG_DST, static_cast<std::byte*>(y) + i * y_step);
    if (config.sum) {
      run.Set(DNNL_ARG_ATTR_MULTIPLE_POST_OP(onednn::kSumOp) | DNNL_ARG_SRC_1,
              static_cast<const std::byte*>(added) + i * y_image);
    }
    run.Run(*stream);
  }
}

const void* BlockedConv::Parts::RoundInput(const void* x, Pieces* pieces) const {
  if (!RoundsInput()) return x;
  auto* rounded = pieces->Take<BFloat16>(RoundedBytes());
  const auto count = static_cast<int64_t>(RoundedBytes() / sizeof(BFloat16));
  RoundAll(config.threads, count, static_cast<const float*>(x), rounded);
  return rounded;
}

namespace {

template <typename T>
void MaskOf(const BlockedConvConfig& config, int64_t count, const BlockedConvGrads& grads,
            void* masked) {
  const int64_t images = config.shape.batch;
  GatherMasked<T>(config.threads, images, images == 0 ? 0 : count / images, config.relu,
                  {static_cast<const T*>(grads.y), grads.y_stride},
                  {static_cast<const T*>(grads.dy), grads.dy_stride}, static_cast<T*>(masked));
}

}  // namespace

// What a fused ReLU lets through of dy, dense.
const void* BlockedConv::Parts::Masked(const BlockedConvGrads& grads, Pieces* pieces) const {
  if (!config.relu.on && grads.dy_stride == 0) return grads.dy;
  void* masked = pieces->Take<void>(OutputBytes());
  (config.bfloat16
       ? MaskOf<BFloat16>
       : MaskOf<float>)(config, static_cast<int64_t>(OutputBytes() / ElementSize()), grads, masked);
  return masked;
}

void BlockedConv::Parts::ToWeight(const BlockedConvGrads& grads, const void* dy, Pieces pieces) {
  if (own_to_weight) {
    const size_t bytes = own_to_weight->Scratch();
    return own_to_weight->Run(grads, dy, {pieces.Take<std::byte>(bytes), bytes});
  }
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
  CREMA_CHECK(p.config.backward && !p.config.affine && !p.config.sum);
  const onednn::ThreadCount threads(p.config.threads);
  Pieces pieces(scratch.data());
  const void* dy = p.Masked(grads, &pieces);
  onednn::Try("gradient of a convolution", [&] {
    if (grads.dweight != nullptr || grads.dbias != nullptr) p.ToWeight(grads, dy, pieces);
    if (grads.dx != nullptr) p.ToInput(grads, dy, pieces);
  });
}

}  // namespace crema
