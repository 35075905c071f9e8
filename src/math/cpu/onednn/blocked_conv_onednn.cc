#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "core/bfloat16.h"
#include "core/parallel_for.h"
#include "math/blocked_conv.h"
#include "math/blocked_copy.h"
#include "math/cpu/onednn/conv_descs.h"
#include "math/cpu/onednn/own_weight_gradient.h"
#include "math/cpu/onednn/pieces.h"
#include "math/image_ranges.h"
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

// Describes the forward primitive: the whole batch on all threads, or one image on one.
onednn::ForwardDesc MakeForward(BlockedConvConfig config) {
  if (config.y_stride == 0) return onednn::MakeForwardDesc(config);
  const onednn::ThreadCount one(1);
  config.shape.batch = 1;
  return onednn::MakeForwardDesc(config);
}

}  // namespace

struct BlockedConv::Parts {
  // Determines the packed weights, besides the parameters.
  struct Key {
    memory::desc desc;
    bool affine;
    bool operator==(const Key&) const = default;
  };

  explicit Parts(const BlockedConvConfig& c)
      : config(c),
        plain_weight(onednn::PlainWeights(c.shape)),
        forward(MakeForward(c)),
        packed({forward.weights_desc(), c.affine}, PackedBytes()) {
    if (!c.backward) return;
    const onednn::ForwardDesc hint = ByImage() ? onednn::MakeForwardDesc(c) : forward;
    to_weight = onednn::MakeToWeightDesc(c, hint);
    own_to_weight = onednn::OwnWeightGradient::Choose(c, *to_weight);
    if (own_to_weight) to_weight.reset();
    if (c.backward_to_input) to_input = onednn::MakeToInputDesc(c, hint);
  }

  bool ByImage() const { return config.y_stride != 0; }
  // The images of the batch that are computed separately, and the threads that do so.
  int64_t Runs() const { return ByImage() ? config.shape.batch : 1; }
  size_t Workers() const {
    return ByImage() ? static_cast<size_t>(ParallelWorkers(config.threads, Runs(), 1)) : 1;
  }
  bool Repacks() const { return forward.weights_desc() != plain_weight; }
  size_t WeightBytes() const {
    return static_cast<size_t>(config.shape.WeightCount()) * sizeof(float);
  }
  size_t ChannelBytes() const {
    return static_cast<size_t>(config.shape.out_channels) * sizeof(float);
  }
  size_t PackedWeightBytes() const { return (forward.weights_desc().get_size() + 63) / 64 * 64; }
  // Weights, then the bias if it is computed.
  size_t RepackedBytes() const { return PackedWeightBytes() + ChannelBytes(); }
  // A plain input is rounded to bfloat16 before it is multiplied.
  bool RoundsInput() const { return config.bfloat16 && config.plain_input; }
  size_t RoundedBytes() const { return RoundsInput() ? InputBytes() : 0; }
  // Weights that a solver changes are packed in each pass, into scratch.
  size_t PackedBytes() const { return config.backward ? 0 : RepackedBytes(); }
  size_t InputBytes() const { return static_cast<size_t>(Runs()) * forward.src_desc().get_size(); }
  size_t OutputBytes() const { return static_cast<size_t>(Runs()) * forward.dst_desc().get_size(); }
  size_t ElementSize() const { return config.bfloat16 ? sizeof(BFloat16) : sizeof(float); }

  void MakePrimitives();
  const std::byte* Packed(const ConvParameters& parameters, bool keep, Pieces* pieces);
  void Pack(const ConvParameters& parameters, std::byte* to, Pieces* pieces);
  void SetWeights(const ConvParameters& parameters, const std::byte* packed);
  // Runs images [begin, end).
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

  std::vector<Runner> run_forward;  // by worker
  Runner run_to_input, run_to_weight;
  Runner pack, pack_to_input, unpack;
  PackedWeightBuffer<Key> packed;
};

void BlockedConv::Parts::MakePrimitives() {
  {
    // oneDNN caches primitives by the current number of threads: with a number other than that of
    // the description, it may return one whose scratch is larger than reserved.
    const onednn::ThreadCount as_described(ByImage() ? 1 : config.threads);
    for (size_t w = 0; w < Workers(); ++w) {
      run_forward.push_back(MakeRunner<dnnl::convolution_forward>(forward));
    }
  }
  if (Repacks()) pack = MakeReorder(plain_weight, forward.weights_desc(), false);
  if (to_weight) {
    run_to_weight = MakeRunner<dnnl::convolution_backward_weights>(*to_weight);
    unpack = MakeReorder(to_weight->diff_weights_desc(), plain_weight, true);
  }
  if (to_input) {
    run_to_input = MakeRunner<dnnl::convolution_backward_data>(*to_input);
    if (to_input->weights_desc() != plain_weight) {
      pack_to_input = MakeReorder(plain_weight, to_input->weights_desc(), false);
    }
  }
}

// Packs the weights times their factors in the layout of the primitive, and their bias.
void BlockedConv::Parts::Pack(const ConvParameters& parameters, std::byte* to, Pieces* pieces) {
  auto* bias = reinterpret_cast<float*>(to + PackedWeightBytes());
  const float* weight = parameters.weight;
  if (config.affine) {
    const int64_t outputs = config.shape.out_channels;
    const int64_t depth = config.shape.WeightCount() / outputs;
    float* scaled = pack ? pieces->Take(WeightBytes()) : reinterpret_cast<float*>(to);
    ParallelFor(config.threads, outputs, 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t o = begin; o < end; ++o) {
        const float factor = parameters.factor[o];
        for (int64_t i = o * depth; i < (o + 1) * depth; ++i) scaled[i] = weight[i] * factor;
        bias[o] = (config.bias ? parameters.bias[o] * factor : 0.0F) + parameters.shift[o];
      }
    });
    weight = scaled;
  }
  if (pack) RunReorder(&pack, weight, to);
}

void BlockedConv::Parts::SetWeights(const ConvParameters& parameters,
                                    const std::byte* packed_values) {
  const void* weight = parameters.weight;
  const void* bias = parameters.bias;
  if (pack || config.affine) weight = packed_values;
  if (config.affine) bias = packed_values + PackedWeightBytes();
  for (Runner& run : run_forward) {
    run.Set(DNNL_ARG_WEIGHTS, weight);
    run.Set(DNNL_ARG_BIAS, bias);
  }
}

const std::byte* BlockedConv::Parts::Packed(const ConvParameters& parameters, bool keep,
                                            Pieces* pieces) {
  if (PackedBytes() > 0) {
    return packed.Get(keep, [&](std::byte* to) { Pack(parameters, to, pieces); });
  }
  auto* to = pieces->Take<std::byte>(RepackedBytes());
  Pack(parameters, to, pieces);
  return to;
}

SharedPackedWeights BlockedConv::ExportPacked() const { return parts_->packed.Export(); }

bool BlockedConv::ImportPacked(const SharedPackedWeights& shared) {
  return parts_->PackedBytes() > 0 && parts_->packed.Import(shared);
}

BlockedConv::BlockedConv(const BlockedConvConfig& config) {
  CREMA_CHECK(!config.activation.on() || (!config.relu.on && !config.backward));
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
  if (!parts_->run_forward.empty()) return;
  const onednn::ThreadCount threads(parts_->config.threads);
  onednn::Try("convolution", [&] { parts_->MakePrimitives(); });
}

void BlockedConv::Forward(const void* x, const ConvParameters& parameters, const void* added,
                          void* y, bool keep_weights, std::span<std::byte> scratch) {
  Prepare();
  Parts& p = *parts_;
  const onednn::ThreadCount threads(p.config.threads);
  Pieces pieces(scratch.data());
  for (Runner& run : p.run_forward) {
    run.Set(DNNL_ARG_SCRATCHPAD, pieces.Take<void>(ScratchOf(p.forward)));
  }
  onednn::Try("convolution", [&] {
    p.SetWeights(parameters, p.Packed(parameters, keep_weights, &pieces));
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
      run.Set(onednn::BinaryArg(onednn::kSumOp),
              static_cast<const std::byte*>(added) + i * y_image);
    }
    run.Run();
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

// Returns dy masked by a fused ReLU, dense.
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
  run_to_weight.Set(DNNL_ARG_DIFF_BIAS, bias);
  run_to_weight.Run();
  if (grads.dweight != nullptr) RunReorder(&unpack, gradient, grads.dweight);
  if (grads.dbias != nullptr) {
    for (int64_t o = 0; o < config.shape.out_channels; ++o) grads.dbias[o] += bias[o];
  }
}

void BlockedConv::Parts::ToInput(const BlockedConvGrads& grads, const void* dy, Pieces pieces) {
  run_to_input.Set(DNNL_ARG_SCRATCHPAD, pieces.Take<void>(ScratchOf(*to_input)));
  const void* weight = grads.weight;
  if (pack_to_input) {
    auto* repacked = pieces.Take<void>(to_input->weights_desc().get_size());
    RunReorder(&pack_to_input, weight, repacked);
    weight = repacked;
  }
  run_to_input.Set(DNNL_ARG_WEIGHTS, weight);
  run_to_input.Set(DNNL_ARG_DIFF_DST, dy);
  run_to_input.Set(DNNL_ARG_DIFF_SRC, grads.dx);
  run_to_input.Run();
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
