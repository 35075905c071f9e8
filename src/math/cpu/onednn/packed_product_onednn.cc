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
ForwardDesc MakeForwardDesc(const PackedProductConfig& c) {
  const Type type = InputType(c);
  const memory::desc x = Matrix(c.rows, c, type, Tag::ab, Tag::nhwc);
  const memory::desc weight = Matrix(c.outputs, c, IsInt8(c) ? Type::s8 : type, Tag::any, Tag::any);
  const memory::desc y({c.rows, c.outputs}, IsInt8(c) ? Type::s32 : Type::f32, Tag::ab);
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
      : config(c),
        forward(MakeForwardDesc(c)),
        packed({forward.weights_desc(), c.x.step}, PackedBytes()) {}

  bool Repacks() const { return forward.weights_desc() != PlainWeights(config); }
  size_t WeightBytes() const { return forward.weights_desc().get_size(); }
  // With int8, the steps of the sums, by output, follow the weights.
  size_t StepsAt() const { return (WeightBytes() + 63) / 64 * 64; }
  size_t PackedBytes() const {
    if (IsInt8(config)) return StepsAt() + static_cast<size_t>(config.outputs) * sizeof(float);
    return Repacks() ? WeightBytes() : 0;
  }
  size_t RoundedBytes() const {
    return config.type == DType::kBF16 ? forward.src_desc().get_size() : 0;
  }
  size_t SumBytes() const { return IsInt8(config) ? forward.dst_desc().get_size() : 0; }

  void MakePrimitives();
  void Pack(const float* weight, std::byte* to);
  void PackInt8(const float* weight, std::byte* to);
  void FinishInt8(const int32_t* sums, const float* steps, const float* bias, float* y) const;

  const PackedProductConfig config;
  const ForwardDesc forward;
  Runner run, pack;
  PackedWeightBuffer<Key> packed;
};

void PackedProduct::Parts::MakePrimitives() {
  run = onednn::MakeRunner<dnnl::inner_product_forward>(forward);
  if (PackedBytes() > 0) {
    pack = onednn::MakeReorder(PlainWeights(config), forward.weights_desc(), false);
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
  pieces.Take(ScratchOf(parts_->forward));
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
  auto* own = pieces.Take<void>(ScratchOf(p.forward));
  auto* rounded = pieces.Take<BFloat16>(p.RoundedBytes());
  auto* sums = pieces.Take<int32_t>(p.SumBytes());
  if (c.type == DType::kBF16) {
    RoundAll(c.threads, c.rows * c.Inputs(), static_cast<const float*>(x), rounded);
    x = rounded;
  }
  const void* packed = weight;
  onednn::Try(NameOf(c), [&] {
    if (!p.run) p.MakePrimitives();
    if (p.pack) packed = p.packed.Get(keep_weights, [&](std::byte* to) { p.Pack(weight, to); });
    p.run.Set(DNNL_ARG_SCRATCHPAD, own);
    p.run.Set(DNNL_ARG_WEIGHTS, packed);
    p.run.Set(DNNL_ARG_SRC, x);
    p.run.Set(DNNL_ARG_DST, IsInt8(c) ? static_cast<void*>(sums) : y);
    p.run.Set(DNNL_ARG_BIAS, bias);
    p.run.Run();
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
