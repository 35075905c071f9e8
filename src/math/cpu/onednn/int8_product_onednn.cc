#include <memory>
#include <optional>
#include <vector>

#include "core/parallel_for.h"
#include "math/cpu/onednn/packed_matrix.h"
#include "math/cpu/onednn/pieces.h"
#include "math/int8_product.h"
#include "math/int8_weights.h"

namespace crema {

using dnnl::memory;
using onednn::Args;
using onednn::PackedMatrix;
using onednn::Pieces;
using onednn::Runner;
using onednn::ScratchOf;

namespace {

using Desc = dnnl::inner_product_forward::primitive_desc;
using Type = memory::data_type;

bool HasPixels(const Int8ProductConfig& c) { return c.height * c.width > 1; }

// Sums are left as they are: the few outputs cost nothing, and rounding is the same everywhere.
Desc MakeDesc(const Int8ProductConfig& c) {
  const Type type = c.x.is_signed ? Type::s8 : Type::u8;
  const bool pixels = HasPixels(c);
  const memory::desc x =
      pixels ? memory::desc({c.rows, c.channels, c.height, c.width}, type, memory::format_tag::nhwc)
             : memory::desc({c.rows, c.channels}, type, memory::format_tag::nc);
  const memory::dims weights = pixels ? memory::dims{c.outputs, c.channels, c.height, c.width}
                                      : memory::dims{c.outputs, c.channels};
  const memory::desc weight(weights, Type::s8, memory::format_tag::any);
  const memory::desc y({c.rows, c.outputs}, Type::s32, memory::format_tag::nc);
  const dnnl::primitive_attr attr = onednn::Attributes();
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), kKind, x, weight, y, attr};
#else
  return {dnnl::inner_product_forward::desc(kKind, x, weight, y), attr, onednn::Cpu()};
#endif
}

struct PackedInt8 final : PackedWeights {
  PackedInt8(const memory::desc& of, int64_t outputs)
      : matrix(of), steps(static_cast<size_t>(outputs)) {}
  PackedMatrix matrix;
  float input_step = 0;
  std::vector<float> steps;  // of the sums, by output
};

}  // namespace

struct Int8Product::Parts {
  explicit Parts(const Int8ProductConfig& c) : config(c), desc(MakeDesc(c)) {}

  size_t WeightBytes() const { return (desc.weights_desc().get_size() + 63) / 64 * 64; }
  void SetWeights(const float* weight);
  size_t SumBytes() const {
    return static_cast<size_t>(config.rows * config.outputs) * sizeof(int32_t);
  }
  void MakePrimitive();
  void Finish(const int32_t* sums, const float* bias, float* y) const;

  const Int8ProductConfig config;
  const Desc desc;
  std::optional<dnnl::stream> stream;
  Runner run;
  std::shared_ptr<PackedInt8> packed;  // null until they are set or taken
  bool keeps = false;
};

void Int8Product::Parts::MakePrimitive() {
  if (stream) return;
  stream.emplace(onednn::Cpu());
  const auto memory_of = onednn::WithoutData;
  run = Runner(dnnl::inner_product_forward(desc),
               Args{{DNNL_ARG_SRC, memory_of(desc.src_desc())},
                    {DNNL_ARG_WEIGHTS, memory_of(desc.weights_desc())},
                    {DNNL_ARG_DST, memory_of(desc.dst_desc())},
                    {DNNL_ARG_SCRATCHPAD, memory_of(desc.scratchpad_desc())}});
}

void Int8Product::Parts::SetWeights(const float* weight) {
  const int64_t outputs = config.outputs, inputs = config.Inputs();
  std::vector<float> transposed;
  if (config.transposed) {
    transposed.resize(static_cast<size_t>(outputs * inputs));
    for (int64_t i = 0; i < inputs; ++i) {
      for (int64_t o = 0; o < outputs; ++o) {
        transposed[static_cast<size_t>(o * inputs + i)] = weight[i * outputs + o];
      }
    }
    weight = transposed.data();
  }
  std::vector<int8_t> bytes(static_cast<size_t>(outputs * inputs));
  // What others read stays as it is.
  if (packed == nullptr || packed.use_count() > 1) {
    packed = std::make_shared<PackedInt8>(desc.weights_desc(), outputs);
  }
  QuantizeRows(config.threads, outputs, inputs, weight, nullptr, bytes.data(),
               packed->steps.data());
  for (float& step : packed->steps) step *= config.x.step;
  packed->input_step = config.x.step;
  const memory::desc given =
      HasPixels(config) ? memory::desc({outputs, config.channels, config.height, config.width},
                                       Type::s8, memory::format_tag::oihw)
                        : memory::desc({outputs, inputs}, Type::s8, memory::format_tag::oi);
  memory from(given, onednn::Cpu(), bytes.data());
  memory to(desc.weights_desc(), onednn::Cpu(), packed->matrix.values.view().raw());
  dnnl::reorder(from, to).execute(*stream, from, to);
}

void Int8Product::Parts::Finish(const int32_t* sums, const float* bias, float* y) const {
  constexpr int64_t kGrain = 64;  // rows
  const std::vector<float>& steps = packed->steps;
  ParallelFor(config.threads, config.rows, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t row = r * config.outputs;
      for (int64_t o = 0; o < config.outputs; ++o) {
        const float v = static_cast<float>(sums[row + o]) * steps[static_cast<size_t>(o)];
        const float with = config.bias ? v + bias[o] : v;
        const bool cut = config.relu.on && with < 0;
        y[row + o] = cut ? with * config.relu.slope : with;
      }
    }
  });
}

Int8Product::Int8Product(const Int8ProductConfig& config) {
  const onednn::ThreadCount threads(config.threads);
  parts_ = onednn::Try("int8 inner product", [&] { return std::make_unique<Parts>(config); });
}

Int8Product::~Int8Product() = default;

size_t Int8Product::Scratch() const {
  Pieces pieces(nullptr);
  pieces.Take(ScratchOf(parts_->desc));
  pieces.Take(parts_->SumBytes());
  return pieces.used();
}

size_t Int8Product::PackedBytes() const {
  return parts_->WeightBytes() + static_cast<size_t>(parts_->config.outputs) * sizeof(float);
}

SharedPackedWeights Int8Product::ExportPacked() const {
  return parts_->keeps ? parts_->packed : nullptr;
}

bool Int8Product::ImportPacked(const SharedPackedWeights& shared) {
  const auto packed = std::dynamic_pointer_cast<const PackedInt8>(shared);
  if (packed == nullptr || packed->matrix.desc != parts_->desc.weights_desc() ||
      packed->input_step != parts_->config.x.step) {
    return false;
  }
  parts_->packed = std::const_pointer_cast<PackedInt8>(packed);  // kept as it is
  parts_->keeps = true;
  return true;
}

void Int8Product::Forward(const void* x, const float* weight, const float* bias, float* y,
                          bool keep_weights, std::span<std::byte> scratch) {
  Parts& p = *parts_;
  const onednn::ThreadCount threads(p.config.threads);
  Pieces pieces(scratch.data());
  onednn::Try("int8 inner product", [&] {
    p.MakePrimitive();
    if (!(keep_weights && p.keeps)) {
      p.keeps = false;
      p.SetWeights(weight);
    }
    p.keeps = keep_weights;
    p.run.Set(DNNL_ARG_SCRATCHPAD, pieces.Take<void>(ScratchOf(p.desc)));
    auto* sums = pieces.Take<int32_t>(p.SumBytes());
    p.run.Set(DNNL_ARG_WEIGHTS, p.packed->matrix.values.view().raw());
    p.run.Set(DNNL_ARG_SRC, x);
    p.run.Set(DNNL_ARG_DST, sums);
    p.run.Run(*p.stream);
    p.Finish(sums, bias, y);
  });
}

}  // namespace crema
