#include "math/cpu/onednn/map_runner.h"
#include "math/lrn_primitive.h"

namespace crema {
namespace {

dnnl::lrn_forward::primitive_desc Describe(int64_t batch, const LrnShape& shape,
                                           const LrnParam& param) {
  using dnnl::memory;
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

struct LrnPrimitive::Parts : onednn::MapRunner<dnnl::lrn_forward> {
  using MapRunner::MapRunner;
};

LrnPrimitive::LrnPrimitive(int64_t batch, const LrnShape& shape, const LrnParam& param, int threads)
    : parts_(
          std::make_unique<Parts>("LRN", threads, [&] { return Describe(batch, shape, param); })) {}

LrnPrimitive::~LrnPrimitive() = default;

bool LrnPrimitive::IsReference() const { return parts_->IsReference(); }
size_t LrnPrimitive::Scratch() const { return parts_->Scratch(); }
void LrnPrimitive::Prepare() { parts_->Prepare(); }
void LrnPrimitive::Forward(const float* x, float* y, std::span<std::byte> scratch) {
  parts_->Forward(x, y, scratch);
}

}  // namespace crema
