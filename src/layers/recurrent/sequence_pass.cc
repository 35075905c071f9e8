#include "layers/recurrent/sequence_pass.h"

#include <algorithm>
#include <type_traits>

#include "core/parallel_for.h"
#include "math/bias_activation.h"
#include "math/gemm.h"

namespace crema {

template <typename T>
void CopyOrZero(const T* src, int64_t count, T* dst) {
  if (src == nullptr) {
    std::fill(dst, dst + count, T(0));
  } else {
    std::copy(src, src + count, dst);
  }
}

template <typename T>
void ProjectInput(const ForwardPass<T>& pass, int64_t width, T* z) {
  const SequenceSize& e = pass.sizes;
  const T* bias = pass.Parameter(RecurrentBlob::kBias);
  T* first = pass.static_scratch;  // initial value of each step of a stream
  if (pass.x_static != nullptr) {
    for (int64_t n = 0; n < e.streams; ++n) std::copy(bias, bias + width, first + n * width);
    Gemm<T>(pass.threads, false, true, e.streams, width, e.statics, T(1), pass.x_static, e.statics,
            pass.Parameter(RecurrentBlob::kStatic), e.statics, T(1), first, width);
  }
  for (int64_t row = 0; row < e.rows(); ++row) {
    const T* from = pass.x_static != nullptr ? first + row % e.streams * width : bias;
    std::copy(from, from + width, z + row * width);
  }
  if constexpr (std::is_same_v<T, float>) {
    if (pass.products != nullptr && pass.products->AddInput(pass.x, z)) return;
  }
  Gemm<T>(pass.threads, false, true, e.rows(), width, e.inputs, T(1), pass.x, e.inputs,
          pass.Parameter(RecurrentBlob::kInput), e.inputs, T(1), z, width);
}

template <typename T>
void AddHiddenProduct(const ForwardPass<T>& pass, int64_t width, const T* h, T* z) {
  if constexpr (std::is_same_v<T, float>) {
    if (pass.products != nullptr) return pass.products->AddHidden(h, z);
  }
  const SequenceSize& e = pass.sizes;
  Gemm<T>(pass.threads, false, true, e.streams, width, e.hidden, T(1), h, e.hidden,
          pass.Parameter(RecurrentBlob::kHidden), e.hidden, T(1), z, width);
}

template <typename T>
void HiddenProductBackward(const BackwardPass<T>& pass, int64_t width, const T* dz, T* dh) {
  if constexpr (std::is_same_v<T, float>) {
    if (pass.products != nullptr) return pass.products->HiddenGradient(dz, dh);
  }
  const SequenceSize& e = pass.sizes;
  Gemm<T>(pass.threads, false, false, e.streams, e.hidden, width, T(1), dz, width,
          pass.Parameter(RecurrentBlob::kHidden), e.hidden, T(0), dh, e.hidden);
}

namespace {

template <typename T>
void StaticBackward(const BackwardPass<T>& pass, int64_t width, const T* dz) {
  const SequenceSize& e = pass.sizes;
  T* sum = pass.static_scratch;
  std::fill(sum, sum + e.streams * width, T(0));
  AddColumnSums<T>(e.steps, e.streams * width, dz, sum);
  if (T* grad = pass.ParameterGrad(RecurrentBlob::kStatic)) {
    Gemm<T>(pass.threads, true, false, width, e.statics, e.streams, T(1), sum, width, pass.x_static,
            e.statics, T(1), grad, e.statics);
  }
  if (pass.dstatic == nullptr) return;
  Gemm<T>(pass.threads, false, false, e.streams, e.statics, width, T(1), sum, width,
          pass.Parameter(RecurrentBlob::kStatic), e.statics, T(pass.accumulate ? 1 : 0),
          pass.dstatic, e.statics);
}

}  // namespace

template <typename T>
void ProjectInputBackward(const BackwardPass<T>& pass, int64_t width, const T* dz) {
  const SequenceSize& e = pass.sizes;
  if (T* grad = pass.ParameterGrad(RecurrentBlob::kInput)) {
    Gemm<T>(pass.threads, true, false, width, e.inputs, e.rows(), T(1), dz, width, pass.x, e.inputs,
            T(1), grad, e.inputs);
  }
  if (T* grad = pass.ParameterGrad(RecurrentBlob::kBias))
    AddColumnSums<T>(e.rows(), width, dz, grad);
  if (pass.x_static != nullptr) StaticBackward(pass, width, dz);
  if (pass.dx == nullptr) return;
  Gemm<T>(pass.threads, false, false, e.rows(), e.inputs, width, T(1), dz, width,
          pass.Parameter(RecurrentBlob::kInput), e.inputs, T(pass.accumulate ? 1 : 0), pass.dx,
          e.inputs);
}

template <typename T>
void LoadHidden(const SequencePass<T>& pass, int64_t k, const HiddenRows<T>& hidden, T* out) {
  const int64_t streams = pass.sizes.streams, size = pass.sizes.hidden;
  if (k == 0 && pass.initial[0] == nullptr) {
    std::fill(out, out + streams * size, T(0));
    return;
  }
  const T* from =
      k == 0 ? pass.initial[0] : hidden.data + pass.Time(k - 1) * streams * hidden.stride;
  const int64_t stride = k == 0 ? size : hidden.stride;
  const T* factors = pass.Factors(k);
  for (int64_t n = 0; n < streams; ++n) {
    const T* row = from + n * stride;
    T* to = out + n * size;
    if (factors == nullptr || factors[n] == T(1)) {
      std::copy(row, row + size, to);
    } else if (factors[n] == T(0)) {
      std::fill(to, to + size, T(0));
    } else {
      for (int64_t d = 0; d < size; ++d) to[d] = factors[n] * row[d];
    }
  }
}

template <typename T>
void LoadAllHidden(const SequencePass<T>& pass, const HiddenRows<T>& hidden, T* out) {
  ParallelFor(pass.threads, pass.sizes.steps, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t k = begin; k < end; ++k) {
      LoadHidden(pass, k, hidden, out + pass.Time(k) * pass.sizes.state());
    }
  });
}

template <typename T>
void FinishBackward(const BackwardPass<T>& pass, int64_t width, const HiddenRows<T>& hidden,
                    const T* dz, const T* dh, T* before) {
  const SequenceSize& e = pass.sizes;
  if (pass.initial_grads[0] != nullptr) CopyOrZero(dh, e.state(), pass.initial_grads[0]);
  ProjectInputBackward(pass, width, dz);
  T* dweight = pass.ParameterGrad(RecurrentBlob::kHidden);
  if (dweight == nullptr) return;
  LoadAllHidden(pass, hidden, before);
  Gemm<T>(pass.threads, true, false, width, e.hidden, e.rows(), T(1), dz, width, before, e.hidden,
          T(1), dweight, e.hidden);
}

template <typename T>
void ApplyFactors(const SequencePass<T>& pass, int64_t k, T* grad) {
  const T* factors = pass.Factors(k);
  if (factors == nullptr) return;
  const int64_t size = pass.sizes.hidden;
  for (int64_t n = 0; n < pass.sizes.streams; ++n) {
    T* row = grad + n * size;
    if (factors[n] == T(0)) {
      std::fill(row, row + size, T(0));
    } else if (factors[n] != T(1)) {
      for (int64_t d = 0; d < size; ++d) row[d] *= factors[n];
    }
  }
}

template <typename T>
void StoreFinal(const ForwardPass<T>& pass, size_t state, const HiddenRows<T>& rows) {
  T* to = pass.final[state];
  if (to == nullptr) return;
  const SequenceSize& e = pass.sizes;
  if (e.steps == 0) return CopyOrZero(pass.initial[state], e.state(), to);
  const T* from = rows.data + pass.Time(e.steps - 1) * e.streams * rows.stride;
  for (int64_t n = 0; n < e.streams; ++n) {
    std::copy(from + n * rows.stride, from + n * rows.stride + e.hidden, to + n * e.hidden);
  }
}

template void CopyOrZero(const float*, int64_t, float*);
template void ProjectInput(const ForwardPass<float>&, int64_t, float*);
template void AddHiddenProduct(const ForwardPass<float>&, int64_t, const float*, float*);
template void HiddenProductBackward(const BackwardPass<float>&, int64_t, const float*, float*);
template void ProjectInputBackward(const BackwardPass<float>&, int64_t, const float*);
template void LoadHidden(const SequencePass<float>&, int64_t, const HiddenRows<float>&, float*);
template void LoadAllHidden(const SequencePass<float>&, const HiddenRows<float>&, float*);
template void FinishBackward(const BackwardPass<float>&, int64_t, const HiddenRows<float>&,
                             const float*, const float*, float*);
template void ApplyFactors(const SequencePass<float>&, int64_t, float*);
template void StoreFinal(const ForwardPass<float>&, size_t, const HiddenRows<float>&);

template void CopyOrZero(const double*, int64_t, double*);
template void ProjectInput(const ForwardPass<double>&, int64_t, double*);
template void AddHiddenProduct(const ForwardPass<double>&, int64_t, const double*, double*);
template void HiddenProductBackward(const BackwardPass<double>&, int64_t, const double*, double*);
template void ProjectInputBackward(const BackwardPass<double>&, int64_t, const double*);
template void LoadHidden(const SequencePass<double>&, int64_t, const HiddenRows<double>&, double*);
template void LoadAllHidden(const SequencePass<double>&, const HiddenRows<double>&, double*);
template void FinishBackward(const BackwardPass<double>&, int64_t, const HiddenRows<double>&,
                             const double*, const double*, double*);
template void ApplyFactors(const SequencePass<double>&, int64_t, double*);
template void StoreFinal(const ForwardPass<double>&, size_t, const HiddenRows<double>&);

}  // namespace crema
