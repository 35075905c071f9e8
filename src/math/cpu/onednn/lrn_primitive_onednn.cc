#include <optional>

#include "math/cpu/onednn/pieces.h"
#include "math/lrn_primitive.h"

namespace crema {

using dnnl::memory;
using onednn::Args;
using onednn::Runner;
using onednn::WithoutData;

namespace {

using Desc = dnnl::lrn_forward::primitive_desc;

Desc MakeDesc(int64_t batch, const LrnShape& shape, const LrnParam& param) {
  const memory::desc x({batch, shape.channels, shape.height, shape.width}, memory::data_type::f32,
                       onednn::BlockedTag());
  // In training it would write twice the size of x for its own way back.
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
  constexpr auto kAcross = dnnl::algorithm::lrn_across_channels;
  const auto alpha = static_cast<float>(param.alpha), beta = static_cast<float>(param.beta),
             k = static_cast<float>(param.k);
  const dnnl::primitive_attr attr = onednn::Attributes();
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), kKind, kAcross, x, x, param.size, alpha, beta, k, attr};
#else
  return {{kKind, kAcross, x, param.size, alpha, beta, k}, attr, onednn::Cpu()};
#endif
}

}  // namespace

struct LrnPrimitive::Parts {
  Parts(Desc d, int t) : desc(std::move(d)), threads(t) {}
  const Desc desc;
  const int threads;
  std::optional<dnnl::stream> stream;
  Runner run;
};

LrnPrimitive::LrnPrimitive(int64_t batch, const LrnShape& shape, const LrnParam& param,
                           int threads) {
  const onednn::ThreadCount count(threads);
  parts_ = onednn::Try(
      "LRN", [&] { return std::make_unique<Parts>(MakeDesc(batch, shape, param), threads); });
}

LrnPrimitive::~LrnPrimitive() = default;

bool LrnPrimitive::IsReference() const { return onednn::IsReference(parts_->desc); }

size_t LrnPrimitive::Scratch() const { return onednn::ScratchOf(parts_->desc); }

void LrnPrimitive::Prepare() {
  Parts& p = *parts_;
  if (p.stream) return;
  const onednn::ThreadCount threads(p.threads);
  onednn::Try("LRN", [&] {
    p.stream.emplace(onednn::Cpu());
    p.run = Runner(dnnl::lrn_forward(p.desc),
                   Args{{DNNL_ARG_SRC, WithoutData(p.desc.src_desc())},
                        {DNNL_ARG_DST, WithoutData(p.desc.dst_desc())},
                        {DNNL_ARG_SCRATCHPAD, WithoutData(p.desc.scratchpad_desc())}});
  });
}

void LrnPrimitive::Forward(const float* x, float* y, std::span<std::byte> scratch) {
  Prepare();
  Parts& p = *parts_;
  const onednn::ThreadCount threads(p.threads);
  onednn::Try("LRN", [&] {
    p.run.Set(DNNL_ARG_SRC, x);
    p.run.Set(DNNL_ARG_DST, y);
    p.run.Set(DNNL_ARG_SCRATCHPAD, scratch.data());
    p.run.Run(*p.stream);
  });
}

}  // namespace crema
