#include <string_view>

#include "math/cpu/onednn/pieces.h"
#include "math/dense_product.h"

namespace crema {
namespace {

using dnnl::memory;
using Desc = dnnl::matmul::primitive_desc;

// oneDNN's fast code refuses matrices with gaps between their rows.
memory::desc Matrix(int64_t rows, int64_t columns, bool transposed) {
  return {{rows, columns},
          memory::data_type::f32,
          transposed ? memory::format_tag::ba : memory::format_tag::ab};
}

// Post-ops mean the same in all versions of oneDNN; scales do not.
dnnl::primitive_attr AttributesOf(const DenseProductConfig& c) {
  dnnl::primitive_attr attr = onednn::Attributes();
  if (c.scale == 1 && !c.add) return attr;
  dnnl::post_ops ops;
  if (c.add) {
    ops.append_sum(1);
    attr.set_post_ops(ops);
    return attr;
  }
  onednn::AppendEltwise(&ops, dnnl::algorithm::eltwise_linear, c.scale);
  attr.set_post_ops(ops);
  return attr;
}

Desc MakeDesc(const DenseProductConfig& c) {
  const memory::desc a = Matrix(c.m, c.k, c.transpose_a);
  const memory::desc b = Matrix(c.k, c.n, c.transpose_b);
  const memory::desc y = Matrix(c.m, c.n, false);
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), a, b, y, AttributesOf(c)};
#else
  return {{a, b, y}, AttributesOf(c), onednn::Cpu()};
#endif
}

}  // namespace

struct DenseProduct::Parts {
  explicit Parts(const DenseProductConfig& c)
      : threads(c.threads), desc(MakeDesc(c)), run(onednn::MakeRunner<dnnl::matmul>(desc)) {}

  const int threads;
  const Desc desc;
  onednn::Runner run;
};

DenseProduct::DenseProduct(const DenseProductConfig& config) {
  CREMA_CHECK(!config.add || config.scale == 1);
  const onednn::ThreadCount threads(config.threads);
  parts_ = onednn::Try("product", [&] { return std::make_unique<Parts>(config); });
}

DenseProduct::~DenseProduct() = default;
DenseProduct::DenseProduct(DenseProduct&&) noexcept = default;
DenseProduct& DenseProduct::operator=(DenseProduct&&) noexcept = default;

bool DenseProduct::IsFast(const DenseProductConfig& config) {
  const onednn::ThreadCount threads(config.threads);
  try {
    return onednn::Try("product", [&] {
      return std::string_view(MakeDesc(config).impl_info_str()).starts_with("brg");
    });
  } catch (const Error&) {
    return false;  // nothing at all
  }
}

size_t DenseProduct::Scratch() const { return onednn::ScratchOf(parts_->desc); }

void DenseProduct::Run(const float* a, const float* b, float* c, std::byte* scratch) {
  Parts& p = *parts_;
  const onednn::ThreadCount threads(p.threads);
  onednn::Try("product", [&] {
    p.run.Set(DNNL_ARG_SRC, a);
    p.run.Set(DNNL_ARG_WEIGHTS, b);
    p.run.Set(DNNL_ARG_DST, c);
    p.run.Set(DNNL_ARG_SCRATCHPAD, scratch);
    p.run.Run();
  });
}

}  // namespace crema
