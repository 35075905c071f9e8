#include <algorithm>
#include <bit>
#include <limits>

#include "core/parallel_for.h"
#include "math/cpu/onednn/map_runner.h"
#include "math/softmax_primitive.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements worth a thread

dnnl::softmax_forward::primitive_desc Describe(int64_t rows, int64_t classes) {
  using dnnl::memory;
  const memory::desc x({rows, classes}, memory::data_type::f32, memory::format_tag::ab);
  constexpr auto kKind = dnnl::prop_kind::forward_inference;
#if DNNL_VERSION_MAJOR >= 3
  return {onednn::Cpu(), kKind, dnnl::algorithm::softmax_accurate, x, x, 1, onednn::Attributes()};
#else
  return {{kKind, x, 1}, onednn::Attributes(), onednn::Cpu()};
#endif
}

// Among bit patterns without the sign, those of NaN are the largest.
CREMA_MULTIVERSION bool HasNan(const float* y, int64_t count) {
  constexpr uint32_t kInfinity = 0x7f800000;
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    most = std::max(most, std::bit_cast<uint32_t>(y[i]) & 0x7fffffffU);
  }
  return most > kInfinity;
}

}  // namespace

struct SoftmaxPrimitive::Parts : onednn::MapRunner<dnnl::softmax_forward> {
  Parts(int64_t r, int64_t c, int t)
      : MapRunner("softmax", t, [&] { return Describe(r, c); }), rows(r), classes(c), threads(t) {}
  const int64_t rows, classes;
  const int threads;
};

SoftmaxPrimitive::SoftmaxPrimitive(int64_t rows, int64_t classes, int threads)
    : parts_(std::make_unique<Parts>(rows, classes, threads)) {}

SoftmaxPrimitive::~SoftmaxPrimitive() = default;

bool SoftmaxPrimitive::IsReference() const { return onednn::IsReference(parts_->desc()); }
size_t SoftmaxPrimitive::Scratch() const { return parts_->Scratch(); }
void SoftmaxPrimitive::Prepare() { parts_->Prepare(); }

void SoftmaxPrimitive::Forward(const float* x, float* y, std::span<std::byte> scratch) {
  Parts& p = *parts_;
  p.Forward(x, y, nullptr, scratch);
  // Next to a NaN oneDNN writes 0: the row would look like probabilities.
  ParallelFor(p.threads, p.rows, std::max<int64_t>(1, kGrain / p.classes),
              [&](int64_t begin, int64_t end, int) {
                for (int64_t r = begin; r < end; ++r) {
                  float* row = y + r * p.classes;
                  if (!HasNan(row, p.classes)) continue;
                  std::fill_n(row, p.classes, std::numeric_limits<float>::quiet_NaN());
                }
              });
}

}  // namespace crema
