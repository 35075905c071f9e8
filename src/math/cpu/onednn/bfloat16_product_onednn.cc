#include <memory>
#include <optional>
#include <utility>

#include "core/bfloat16.h"
#include "math/bfloat16_product.h"
#include "math/blocked_copy.h"
#include "math/cpu/onednn/packed_matrix.h"
#include "math/cpu/onednn/primitives.h"
#include "math/scratch.h"

namespace crema {
namespace {

using dnnl::memory;
using onednn::Args;
using onednn::PackedMatrix;
using onednn::Runner;
using Desc = dnnl::inner_product_forward::primitive_desc;
constexpr auto kF32 = memory::data_type::f32;
constexpr auto kBF16 = memory::data_type::bf16;

Desc MakeDesc(const BFloat16ProductConfig& c) {
  const memory::desc x({c.rows, c.inputs}, kBF16, memory::format_tag::nc);
  const memory::desc weight({c.outputs, c.inputs}, kBF16, memory::format_tag::any);
  const memory::desc y({c.rows, c.outputs}, kF32, memory::format_tag::nc);
  memory::desc bias;
  if (c.bias) bias = memory::desc({c.outputs}, kF32, memory::format_tag::x);
  const dnnl::primitive_attr attr = onednn::Attributes();
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), kKind, x, weight, bias, y, attr};
#else
  return {dnnl::inner_product_forward::desc(kKind, x, weight, bias, y), attr, onednn::Cpu()};
#endif
}

}  // namespace

struct BFloat16Product::Parts {
  explicit Parts(const BFloat16ProductConfig& c) : config(c), desc(MakeDesc(c)) {}
  int64_t InputCount() const { return config.rows * config.inputs; }
  int64_t OwnScratch() const { return static_cast<int64_t>(desc.scratchpad_desc().get_size()); }
  void MakePrimitive();

  const BFloat16ProductConfig config;
  const Desc desc;
  std::optional<dnnl::stream> stream;
  Runner run;
  std::shared_ptr<const PackedMatrix> packed;  // null until they are set or taken
};

void BFloat16Product::Parts::MakePrimitive() {
  stream.emplace(onednn::Cpu());
  const auto memory_of = onednn::WithoutData;
  Args args{{DNNL_ARG_SRC, memory_of(desc.src_desc())},
            {DNNL_ARG_WEIGHTS, memory_of(desc.weights_desc())},
            {DNNL_ARG_DST, memory_of(desc.dst_desc())},
            {DNNL_ARG_SCRATCHPAD, memory_of(desc.scratchpad_desc())}};
  if (config.bias) args.emplace(DNNL_ARG_BIAS, memory_of(desc.bias_desc()));
  run = Runner(dnnl::inner_product_forward(desc), std::move(args));
}

BFloat16Product::BFloat16Product(const BFloat16ProductConfig& config) {
  const onednn::ThreadCount threads(config.threads);
  parts_ = onednn::Try("inner product", [&] { return std::make_unique<Parts>(config); });
}

BFloat16Product::~BFloat16Product() = default;

size_t BFloat16Product::Scratch() const {
  return ScratchBytes<std::byte>(parts_->OwnScratch()) +
         ScratchBytes<BFloat16>(parts_->InputCount()) + kScratchSlack;
}

size_t BFloat16Product::PackedBytes() const { return parts_->desc.weights_desc().get_size(); }

bool BFloat16Product::HasWeights() const { return parts_->packed != nullptr; }

SharedPackedWeights BFloat16Product::ExportPacked() const { return parts_->packed; }

bool BFloat16Product::ImportPacked(const SharedPackedWeights& shared) {
  const auto packed = std::dynamic_pointer_cast<const PackedMatrix>(shared);
  if (packed == nullptr || packed->desc != parts_->desc.weights_desc()) return false;
  parts_->packed = packed;
  return true;
}

void BFloat16Product::SetWeights(const float* weight) {
  Parts& p = *parts_;
  const onednn::ThreadCount threads(p.config.threads);
  onednn::Try("inner product", [&] {
    const memory::desc given({p.config.outputs, p.config.inputs}, kF32,
                             p.config.transposed ? memory::format_tag::io : memory::format_tag::oi);
    const auto packed = std::make_shared<PackedMatrix>(p.desc.weights_desc());
    dnnl::stream stream(onednn::Cpu());
    memory from(given, onednn::Cpu(), const_cast<float*>(weight));
    memory to(packed->desc, onednn::Cpu(), packed->values.view().raw());
    dnnl::reorder(from, to).execute(stream, from, to);
    p.packed = packed;
  });
}

void BFloat16Product::Run(const float* x, const float* bias, float* y,
                          std::span<std::byte> scratch) {
  Parts& p = *parts_;
  CREMA_CHECK(HasWeights());
  const onednn::ThreadCount threads(p.config.threads);
  ScratchCutter cutter(scratch);
  auto* own = cutter.Take<std::byte>(p.OwnScratch());
  auto* rounded = cutter.Take<BFloat16>(p.InputCount());
  RoundAll(p.config.threads, p.InputCount(), x, rounded);
  onednn::Try("inner product", [&] {
    if (!p.stream) p.MakePrimitive();
    p.run.Set(DNNL_ARG_WEIGHTS, p.packed->values.view().raw());
    p.run.Set(DNNL_ARG_SRC, rounded);
    p.run.Set(DNNL_ARG_DST, y);
    p.run.Set(DNNL_ARG_SCRATCHPAD, own);
    if (p.config.bias) p.run.Set(DNNL_ARG_BIAS, bias);
    p.run.Run(*p.stream);
  });
  // Not by oneDNN, whose ReLU makes 0 of NaN: broken data would go unnoticed.
  if (p.config.relu.on) {
    AddColumnBiasRelu<float>(p.config.rows, p.config.outputs, nullptr, p.config.relu, y);
  }
}

}  // namespace crema
