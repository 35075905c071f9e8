#include <algorithm>
#include <vector>

#include "core/bfloat16.h"
#include "core/parallel_for.h"
#include "math/blocked_copy.h"
#include "math/cpu/onednn/activations.h"
#include "math/cpu/onednn/pieces.h"
#include "math/int8_weights.h"
#include "math/packed_product.h"
#include "math/packed_weight_buffer.h"

namespace crema {

using dnnl::memory;
using onednn::Pieces;
using onednn::Runner;
using onednn::ScratchOf;

namespace {

using ForwardDesc = dnnl::inner_product_forward::primitive_desc;
using Tag = memory::format_tag;
using Type = memory::data_type;

bool IsInt8(const PackedProductConfig& c) { return c.type == DType::kU8; }
bool HasPixels(const PackedProductConfig& c) { return c.height * c.width > 1; }

memory::desc Matrix(int64_t rows, const PackedProductConfig& c, Type type, Tag tag, Tag pixel_tag) {
  if (HasPixels(c)) return {{rows, c.channels, c.height, c.width}, type, pixel_tag};
  return {{rows, c.channels}, type, tag};
}

// Weights as in a caffemodel; int8 weights, after they were transposed and rounded.
memory::desc PlainWeights(const PackedProductConfig& c) {
  const bool transposed = c.transposed && !IsInt8(c);
  return Matrix(c.outputs, c, IsInt8(c) ? Type::s8 : Type::f32, transposed ? Tag::ba : Tag::ab,
                Tag::oihw);
}

Type InputType(const PackedProductConfig& c) {
  if (IsInt8(c)) return c.x.is_signed ? Type::s8 : Type::u8;
  return c.type == DType::kBF16 ? Type::bf16 : Type::f32;
}

// Sums of int8 products stay unscaled: the few outputs cost nothing, and rounding is the same
// everywhere.
ForwardDesc MakeForwardDesc(const PackedProductConfig& c, int64_t rows) {
  const Type type = InputType(c);
  const memory::desc x = Matrix(rows, c, type, Tag::ab, Tag::nhwc);
  const memory::desc weight = Matrix(c.outputs, c, IsInt8(c) ? Type::s8 : type, Tag::any, Tag::any);
  const memory::desc y({rows, c.outputs}, IsInt8(c) ? Type::s32 : Type::f32, Tag::ab);
  memory::desc bias;
  if (c.bias && !IsInt8(c)) bias = memory::desc({c.outputs}, Type::f32, Tag::a);
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  dnnl::primitive_attr attr = onednn::Attributes();
  dnnl::post_ops ops;
  if (c.add) ops.append_sum(1);
  onednn::AppendActivation(&ops, c.activation);
  attr.set_post_ops(ops);
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), kKind, x, weight, bias, y, attr};
#else
  return {{kKind, x, weight, bias, y}, attr, onednn::Cpu()};
#endif
}

constexpr int64_t kLargestBlock = 64;

// Returns the largest divisor up to that of a block.
int64_t DivisorOf(int64_t rows) {
  int64_t divisor = std::min(rows, kLargestBlock);
  while (rows % divisor != 0) --divisor;
  return divisor;
}

// oneDNN divides rows among threads in blocks of their largest divisor from 6 to 64, otherwise of
// 64: then the last block is shorter, and some threads wait. Returns the rows of the first of two
// products of whole blocks, which then take less time; `rows` if one product is better.
int64_t FirstRows(const PackedProductConfig& c) {
  constexpr int64_t kLeastDivisor = 6, kGoodDivisor = 16;
  const int64_t rows = c.rows;
  const int64_t computed = (rows + kLargestBlock - 1) / kLargestBlock * kLargestBlock;
  const bool balanced =
      rows <= kLargestBlock || DivisorOf(rows) >= kLeastDivisor || computed * 10 <= rows * 11;
  if (c.threads == 1 || balanced || IsInt8(c)) return rows;
  for (int64_t first = (rows + 1) / 2; first <= rows - kGoodDivisor; ++first) {
    if (DivisorOf(first) >= kGoodDivisor && DivisorOf(rows - first) >= kGoodDivisor) return first;
  }
  return rows;
}

// The product of some of the rows.
struct Share {
  int64_t rows;
  ForwardDesc desc;
  Runner run = {};
};

// Returns shares that read the same packed weights.
std::vector<Share> MakeShares(const PackedProductConfig& c) {
  const int64_t first = FirstRows(c);
  std::vector<Share> shares{{first, MakeForwardDesc(c, first)}};
  if (first == c.rows) return shares;
  shares.push_back({c.rows - first, MakeForwardDesc(c, c.rows - first)});
  if (shares[0].desc.weights_desc() == shares[1].desc.weights_desc()) return shares;
  return {{c.rows, MakeForwardDesc(c, c.rows)}};
}

std::vector<float> Transposed(const float* weight, int64_t inputs, int64_t outputs) {
  std::vector<float> transposed(static_cast<size_t>(outputs * inputs));
  for (int64_t i = 0; i < inputs; ++i) {
    for (int64_t o = 0; o < outputs; ++o) {
      transposed[static_cast<size_t>(o * inputs + i)] = weight[i * outputs + o];
    }
  }
  return transposed;
}

const char* NameOf(const PackedProductConfig& c) {
  return IsInt8(c) ? "int8 inner product" : "inner product";
}

}  // namespace

struct PackedProduct::Parts {
  struct Key {
    memory::desc desc;
    float input_step;
    bool operator==(const Key&) const = default;
  };

  explicit Parts(const PackedProductConfig& c)
      : config(c), shares(MakeShares(c)), packed({WeightsDesc(), c.x.step}, PackedBytes()) {}

  memory::desc WeightsDesc() const { return shares[0].desc.weights_desc(); }
  bool Repacks() const { return WeightsDesc() != PlainWeights(config); }
  size_t WeightBytes() const { return WeightsDesc().get_size(); }
  // With int8, the steps of the sums, by output, follow the weights.
  size_t StepsAt() const { return (WeightBytes() + 63) / 64 * 64; }
  size_t PackedBytes() const {
    if (IsInt8(config)) return StepsAt() + static_cast<size_t>(config.outputs) * sizeof(float);
    return Repacks() ? WeightBytes() : 0;
  }
  size_t RoundedBytes() const {
    if (config.type != DType::kBF16) return 0;
    return static_cast<size_t>(config.rows * config.Inputs()) * sizeof(BFloat16);
  }
  size_t SumBytes() const { return IsInt8(config) ? shares[0].desc.dst_desc().get_size() : 0; }
  size_t OwnScratch() const {
    return std::max(ScratchOf(shares.front().desc), ScratchOf(shares.back().desc));
  }

  void MakePrimitives();
  void Run(const void* x, const void* weights, const float* bias, void* y, void* scratch);
  void Pack(const float* weight, std::byte* to);
  void PackInt8(const float* weight, std::byte* to);
  void FinishInt8(const int32_t* sums, const float* steps, const float* bias, float* y) const;

  const PackedProductConfig config;
  std::vector<Share> shares;
  Runner pack;
  PackedWeightBuffer<Key> packed;
};

void PackedProduct::Parts::MakePrimitives() {
  for (Share& share : shares) {
    share.run = onednn::MakeRunner<dnnl::inner_product_forward>(share.desc);
  }
  if (PackedBytes() > 0) pack = onednn::MakeReorder(PlainWeights(config), WeightsDesc(), false);
}

void PackedProduct::Parts::Run(const void* x, const void* weights, const float* bias, void* y,
                               void* scratch) {
  const int64_t x_bytes = config.Inputs() * static_cast<int64_t>(SizeOf(config.type));
  const int64_t y_bytes = config.outputs * static_cast<int64_t>(sizeof(float));
  int64_t row = 0;
  for (Share& share : shares) {
    share.run.Set(DNNL_ARG_SCRATCHPAD, scratch);
    share.run.Set(DNNL_ARG_WEIGHTS, weights);
    share.run.Set(DNNL_ARG_SRC, static_cast<const std::byte*>(x) + row * x_bytes);
    share.run.Set(DNNL_ARG_DST, static_cast<std::byte*>(y) + row * y_bytes);
    share.run.Set(DNNL_ARG_BIAS, bias);
    share.run.Run();
    row += share.rows;
  }
}

void PackedProduct::Parts::Pack(const float* weight, std::byte* to) {
  IsInt8(config) ? PackInt8(weight, to) : onednn::RunReorder(&pack, weight, to);
}

void PackedProduct::Parts::PackInt8(const float* weight, std::byte* to) {
  const int64_t outputs = config.outputs, inputs = config.Inputs();
  std::vector<float> transposed;
  if (config.transposed) {
    transposed = Transposed(weight, inputs, outputs);
    weight = transposed.data();
  }
  std::vector<int8_t> bytes(static_cast<size_t>(outputs * inputs));
  auto* steps = reinterpret_cast<float*>(to + StepsAt());
  QuantizeRows(config.threads, outputs, inputs, weight, nullptr, bytes.data(), steps);
  for (int64_t o = 0; o < outputs; ++o) steps[o] *= config.x.step;
  onednn::RunReorder(&pack, bytes.data(), to);
}

void PackedProduct::Parts::FinishInt8(const int32_t* sums, const float* steps, const float* bias,
                                      float* y) const {
  constexpr int64_t kGrain = 64;  // rows
  ParallelFor(config.threads, config.rows, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t row = r * config.outputs;
      for (int64_t o = 0; o < config.outputs; ++o) {
        const float v = static_cast<float>(sums[row + o]) * steps[o];
        const float with = config.bias ? v + bias[o] : v;
        const bool cut = config.relu.on && with < 0;
        y[row + o] = cut ? with * config.relu.slope : with;
      }
    }
  });
}

PackedProduct::PackedProduct(const PackedProductConfig& config) {
  CREMA_CHECK(!config.add || (!config.bias && !config.relu.on && config.type == DType::kF32));
  CREMA_CHECK(!config.activation.on() ||
              (!config.add && !config.relu.on && config.type != DType::kU8));
  CREMA_CHECK(!HasPixels(config) || IsInt8(config));
  const onednn::ThreadCount threads(config.threads);
  parts_ = onednn::Try(NameOf(config), [&] { return std::make_unique<Parts>(config); });
}

PackedProduct::~PackedProduct() = default;

size_t PackedProduct::Scratch() const {
  Pieces pieces(nullptr);
  pieces.Take(parts_->OwnScratch());
  pieces.Take(parts_->RoundedBytes());
  pieces.Take(parts_->SumBytes());
  return pieces.used();
}

size_t PackedProduct::PackedBytes() const { return parts_->PackedBytes(); }

SharedPackedWeights PackedProduct::ExportPacked() const { return parts_->packed.Export(); }

bool PackedProduct::ImportPacked(const SharedPackedWeights& shared) {
  return parts_->packed.Import(shared);
}

void PackedProduct::ForgetWeights() { parts_->packed.Forget(); }

void PackedProduct::Forward(const void* x, const float* weight, const float* bias, float* y,
                            bool keep_weights, std::span<std::byte> scratch) {
  Parts& p = *parts_;
  const PackedProductConfig& c = p.config;
  const onednn::ThreadCount threads(c.threads);
  Pieces pieces(scratch.data());
  auto* own = pieces.Take<void>(p.OwnScratch());
  auto* rounded = pieces.Take<BFloat16>(p.RoundedBytes());
  auto* sums = pieces.Take<int32_t>(p.SumBytes());
  if (c.type == DType::kBF16) {
    RoundAll(c.threads, c.rows * c.Inputs(), static_cast<const float*>(x), rounded);
    x = rounded;
  }
  const void* packed = weight;
  onednn::Try(NameOf(c), [&] {
    if (!p.shares[0].run) p.MakePrimitives();
    if (p.pack) packed = p.packed.Get(keep_weights, [&](std::byte* to) { p.Pack(weight, to); });
    p.Run(x, packed, bias, IsInt8(c) ? static_cast<void*>(sums) : y, own);
  });
  if (IsInt8(c)) {
    const auto* base = static_cast<const std::byte*>(packed);
    p.FinishInt8(sums, reinterpret_cast<const float*>(base + p.StepsAt()), bias, y);
  } else if (c.relu.on) {
    // Not by oneDNN, whose ReLU turns NaN into 0 and so would hide invalid data.
    AddColumnBiasRelu<float>(c.rows, c.outputs, nullptr, c.relu, y);
  }
}

}  // namespace crema
