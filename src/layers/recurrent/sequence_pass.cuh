// GPU counterpart of sequence_pass.h, shared by all recurrent layers.
#pragma once

#include <cmath>

#include "layers/gpu_implementation.h"
#include "layers/recurrent/recurrent_gates.h"
#include "layers/recurrent/recurrent_layer.h"
#include "math/cuda/gemm.h"
#include "math/cuda/sums.cuh"

namespace crema {

struct GpuRun {
  const CudaQueue& queue;
  DType dtype;
};

CREMA_HOST_DEVICE inline float GateSigmoid(float x) { return 1 / (1 + std::exp(-x)); }

// States before each step: the previous or initial state, times the factors.
template <typename T>
struct StepStart {
  StepStart(const SequencePass<T>& pass, const T* first, const T* states, int64_t stride_of_rows)
      : initial(first),
        rows(states),
        cont(pass.cont),
        stride(stride_of_rows),
        steps(pass.sizes.steps),
        streams(pass.sizes.streams),
        size(pass.sizes.hidden),
        reverse(pass.reverse) {}

  CREMA_HOST_DEVICE int64_t Time(int64_t k) const { return reverse ? steps - 1 - k : k; }
  // As in SequencePass::Factors.
  CREMA_HOST_DEVICE float Factor(int64_t k, int64_t n) const {
    if (cont == nullptr || (reverse && k == 0)) return 1;
    return ToFloat(cont[(reverse ? Time(k) + 1 : Time(k)) * streams + n]);
  }
  // Returns element d of stream n before the k-th step.
  CREMA_HOST_DEVICE float Of(int64_t k, int64_t n, int64_t d) const {
    if (k > 0) return Masked(Factor(k, n), ToFloat(rows[(Time(k - 1) * streams + n) * stride + d]));
    return initial == nullptr ? 0 : Masked(Factor(k, n), ToFloat(initial[n * size + d]));
  }

  const T* initial;  // null means zeros
  const T* rows;     // states of all steps
  const T* cont;     // null means that all factors are 1
  int64_t stride, steps, streams, size;
  bool reverse;
};

// to = from, or zeros if `from` is null.
template <typename T>
static void CopyOrZero(const GpuRun& run, const T* from, int64_t count, T* to) {
  ForElements(run.queue, "CopyOrZero", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    to[i] = from == nullptr ? FromFloat<T>(0) : from[i];
  });
}

// Fills rows of `to`, `stride` apart, with the rows of a table, repeated.
template <typename T>
static void RepeatRows(const GpuRun& run, const T* table, int64_t table_rows, int64_t rows,
                       int64_t width, T* to, int64_t stride) {
  ForElements(run.queue, "RepeatRows", rows * width, [=] CREMA_HOST_DEVICE(int64_t i) {
    to[i / width * stride + i % width] = table[i / width % table_rows * width + i % width];
  });
}

// z (rows x width) = b + W_x x + W_static x_static.
template <typename T>
void ProjectInput(const GpuRun& run, const ForwardPass<T>& pass, int64_t width, T* z) {
  const SequenceSize& e = pass.sizes;
  const T* bias = pass.Parameter(RecurrentBlob::kBias);
  if (pass.x_static != nullptr) {
    RepeatRows(run, bias, 1, e.streams, width, pass.static_scratch, width);
    CudaGemm(run.queue, run.dtype, false, true, e.streams, width, e.statics, pass.x_static,
             e.statics, pass.Parameter(RecurrentBlob::kStatic), e.statics, 1, pass.static_scratch,
             width);
    RepeatRows(run, pass.static_scratch, e.streams, e.rows(), width, z, width);
  } else {
    RepeatRows(run, bias, 1, e.rows(), width, z, width);
  }
  CudaGemm(run.queue, run.dtype, false, true, e.rows(), width, e.inputs, pass.x, e.inputs,
           pass.Parameter(RecurrentBlob::kInput), e.inputs, 1, z, width);
}

// sums[i] = the sum of element i over all steps.
template <typename T>
static void SumOverSteps(const GpuRun& run, int64_t steps, int64_t count, const T* rows, T* sums) {
  ForElements(run.queue, "SumOverSteps", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    float sum = 0;
    for (int64_t t = 0; t < steps; ++t) sum += ToFloat(rows[t * count + i]);
    sums[i] = FromFloat<T>(sum);
  });
}

template <typename T>
void StaticBackward(const GpuRun& run, const BackwardPass<T>& pass, int64_t width, const T* dz) {
  const SequenceSize& e = pass.sizes;
  T* sum = pass.static_scratch;
  SumOverSteps(run, e.steps, e.streams * width, dz, sum);
  if (T* grad = pass.ParameterGrad(RecurrentBlob::kStatic)) {
    CudaGemm(run.queue, run.dtype, true, false, width, e.statics, e.streams, sum, width,
             pass.x_static, e.statics, 1, grad, e.statics);
  }
  if (pass.dstatic == nullptr) return;
  CudaGemm(run.queue, run.dtype, false, false, e.streams, e.statics, width, sum, width,
           pass.Parameter(RecurrentBlob::kStatic), e.statics, pass.accumulate ? 1 : 0, pass.dstatic,
           e.statics);
}

// Computes dx and dstatic from dz, and adds the gradients of W_x, b and W_static.
template <typename T>
void ProjectInputBackward(const GpuRun& run, const BackwardPass<T>& pass, int64_t width,
                          const T* dz) {
  const SequenceSize& e = pass.sizes;
  if (T* grad = pass.ParameterGrad(RecurrentBlob::kInput)) {
    CudaGemm(run.queue, run.dtype, true, false, width, e.inputs, e.rows(), dz, width, pass.x,
             e.inputs, 1, grad, e.inputs);
  }
  if (T* grad = pass.ParameterGrad(RecurrentBlob::kBias)) {
    AddColumnSums(run.queue, e.rows(), width, width, dz, grad);
  }
  if (pass.x_static != nullptr) StaticBackward(run, pass, width, dz);
  if (pass.dx == nullptr) return;
  CudaGemm(run.queue, run.dtype, false, false, e.rows(), e.inputs, width, dz, width,
           pass.Parameter(RecurrentBlob::kInput), e.inputs, pass.accumulate ? 1 : 0, pass.dx,
           e.inputs);
}

// Writes the hidden state before the k-th step to out (streams x hidden).
template <typename T>
static void LoadHidden(const GpuRun& run, const StepStart<T>& start, int64_t k, T* out) {
  ForElements(run.queue, "LoadHidden", start.streams * start.size,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                out[i] = FromFloat<T>(start.Of(k, i / start.size, i % start.size));
              });
}

// Does the same for all steps, in the time order of the data.
template <typename T>
static void LoadAllHidden(const GpuRun& run, const StepStart<T>& start, T* out) {
  const int64_t state = start.streams * start.size;
  ForElements(run.queue, "LoadAllHidden", start.steps * state, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t k = start.Time(i / state);  // Time is its own inverse
    out[i] = FromFloat<T>(start.Of(k, i % state / start.size, i % start.size));
  });
}

// As in sequence_pass.h.
template <typename T>
void AddHiddenProduct(const GpuRun& run, const SequencePass<T>& pass, int64_t width, const T* h,
                      T* z) {
  const SequenceSize& e = pass.sizes;
  CudaGemm(run.queue, run.dtype, false, true, e.streams, width, e.hidden, h, e.hidden,
           pass.Parameter(RecurrentBlob::kHidden), e.hidden, 1, z, width);
}
template <typename T>
void HiddenProductBackward(const GpuRun& run, const SequencePass<T>& pass, int64_t width,
                           const T* dz, T* dh) {
  const SequenceSize& e = pass.sizes;
  CudaGemm(run.queue, run.dtype, false, false, e.streams, e.hidden, width, dz, width,
           pass.Parameter(RecurrentBlob::kHidden), e.hidden, 0, dh, e.hidden);
}
template <typename T>
void FinishBackward(const GpuRun& run, const BackwardPass<T>& pass, int64_t width,
                    const StepStart<T>& hidden, const T* dz, const T* dh, T* before) {
  const SequenceSize& e = pass.sizes;
  if (pass.initial_grads[0] != nullptr) CopyOrZero(run, dh, e.state(), pass.initial_grads[0]);
  ProjectInputBackward(run, pass, width, dz);
  T* dweight = pass.ParameterGrad(RecurrentBlob::kHidden);
  if (dweight == nullptr) return;
  LoadAllHidden(run, hidden, before);
  CudaGemm(run.queue, run.dtype, true, false, width, e.hidden, e.rows(), dz, width, before,
           e.hidden, 1, dweight, e.hidden);
}

// Converts the gradient of the state before the k-th step to that of the state after the step
// before it.
template <typename T>
static void ApplyFactors(const GpuRun& run, const StepStart<T>& start, int64_t k, T* grad) {
  if (start.cont == nullptr) return;
  ForElements(run.queue, "ApplyFactors", start.streams * start.size,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                grad[i] = FromFloat<T>(Masked(start.Factor(k, i / start.size), ToFloat(grad[i])));
              });
}

// Copies the state after the last step to `to`; null means not needed.
template <typename T>
static void StoreFinal(const GpuRun& run, const StepStart<T>& start, T* to) {
  if (to == nullptr) return;
  ForElements(run.queue, "StoreFinal", start.streams * start.size,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t n = i / start.size, d = i % start.size;
                if (start.steps > 0) {
                  const int64_t row = start.Time(start.steps - 1) * start.streams + n;
                  to[i] = start.rows[row * start.stride + d];
                } else {
                  to[i] = start.initial == nullptr ? FromFloat<T>(0) : start.initial[i];
                }
              });
}

}  // namespace crema
