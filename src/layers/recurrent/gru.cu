// GRU on the GPU; see gru.cc.
#include "crema.pb.h"
#include "layers/recurrent/gru_gradients.h"
#include "layers/recurrent/recurrent_implementation.cuh"

namespace crema {
namespace {

constexpr size_t kGates = 0;    // tapes
constexpr size_t kProduct = 1;  // W_hn h' + b_hn

bool ResetAfter(const RecurrentLayer& layer) {
  return layer.param().recurrent_param().reset_after();
}

// One step with reset_after: `u` is W_h h' + b_h.
template <typename T>
void StepResetAfter(const GpuRun& run, const ForwardPass<T>& pass, int64_t t, const T* before,
                    const T* u) {
  const int64_t size = pass.sizes.hidden, first = t * pass.sizes.streams, stride = pass.y_stride;
  T* gates = pass.tape[kGates];
  T* products = pass.tape[kProduct];
  T* y = pass.y;
  ForElements(run.queue, "GruStep", pass.sizes.state(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t s = i / size, d = i % size, row = first + s;
    T* gate = gates + row * 3 * size + d;
    const T* from_h = u + s * 3 * size + d;
    const float r = GateSigmoid(ToFloat(gate[0]) + ToFloat(from_h[0]));
    const float z = GateSigmoid(ToFloat(gate[size]) + ToFloat(from_h[size]));
    const float product = ToFloat(from_h[2 * size]);
    const float n = std::tanh(ToFloat(gate[2 * size]) + r * product);
    products[row * size + d] = FromFloat<T>(product);
    gate[0] = FromFloat<T>(r);
    gate[size] = FromFloat<T>(z);
    gate[2 * size] = FromFloat<T>(n);
    y[row * stride + d] = FromFloat<T>((1 - z) * n + z * ToFloat(before[i]));
  });
}

// Without reset_after: the gates r and z, and r h'.
template <typename T>
void StepGates(const GpuRun& run, const SequenceSize& e, const T* before, T* gates, T* reset) {
  const int64_t size = e.hidden;
  ForElements(run.queue, "GruGates", e.state(), [=] CREMA_HOST_DEVICE(int64_t i) {
    T* gate = gates + i / size * 3 * size + i % size;
    const float r = GateSigmoid(ToFloat(gate[0]));
    gate[0] = FromFloat<T>(r);
    gate[size] = FromFloat<T>(GateSigmoid(ToFloat(gate[size])));
    reset[i] = FromFloat<T>(r * ToFloat(before[i]));
  });
}

// Then computes n and h; `y` is the output of this step.
template <typename T>
void StepHidden(const GpuRun& run, const SequenceSize& e, const T* before, T* gates, T* y,
                int64_t stride) {
  const int64_t size = e.hidden;
  ForElements(run.queue, "GruHidden", e.state(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t s = i / size, d = i % size;
    T* gate = gates + s * 3 * size + d;
    const float n = std::tanh(ToFloat(gate[2 * size])), z = ToFloat(gate[size]);
    gate[2 * size] = FromFloat<T>(n);
    y[s * stride + d] = FromFloat<T>((1 - z) * n + z * ToFloat(before[i]));
  });
}

template <typename T>
void StepResetBefore(const GpuRun& run, const ForwardPass<T>& pass, int64_t t, const T* before,
                     T* reset) {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  const T* weight = pass.Parameter(RecurrentBlob::kHidden);
  T* step = pass.tape[kGates] + t * e.streams * 3 * size;
  CudaGemm(run.queue, run.dtype, false, true, e.streams, 2 * size, size, before, size, weight, size,
           1, step, 3 * size);
  StepGates(run, e, before, step, reset);
  CudaGemm(run.queue, run.dtype, false, true, e.streams, size, size, reset, size,
           weight + 2 * size * size, size, 1, step + 2 * size, 3 * size);
  StepHidden(run, e, before, step, pass.y + t * e.streams * pass.y_stride, pass.y_stride);
}

// Computes dz of z and n, of r with reset_after, and the direct part of dh'.
template <typename T>
void GateGradients(const GpuRun& run, const BackwardPass<T>& pass, int64_t t, bool reset_after,
                   const GruGradients<T>& at) {
  const int64_t size = pass.sizes.hidden, first = t * pass.sizes.streams, stride = pass.y_stride;
  const T* gates = pass.tapes[kGates];
  const T* products = pass.tapes[kProduct];
  const T* dy = pass.dy;
  ForElements(run.queue, "GruBackward", pass.sizes.state(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t d = i % size, row = first + i / size, own = row * size + d;
    const T* gate = gates + row * 3 * size + d;
    const float r = ToFloat(gate[0]), before = ToFloat(at.before[own]);
    const GruSlopes<float> slopes =
        GruBackward(ToFloat(gate[size]), ToFloat(gate[2 * size]), before,
                    ToFloat(at.dh[i]) + ToFloat(dy[row * stride + d]));
    T* dz = at.dz + row * 3 * size + d;
    dz[size] = FromFloat<T>(slopes.z);
    dz[2 * size] = FromFloat<T>(slopes.n);
    at.dh[i] = FromFloat<T>(slopes.before);
    at.dproduct[own] = FromFloat<T>(reset_after ? slopes.n * r : slopes.n);
    if (reset_after) {
      dz[0] = FromFloat<T>(slopes.n * ToFloat(products[own]) * r * (1 - r));
    } else {
      at.factor[own] = FromFloat<T>(r * before);
    }
  });
}

template <typename T>
void ResetSlopes(const GpuRun& run, const BackwardPass<T>& pass, int64_t t,
                 const GruGradients<T>& at) {
  const int64_t size = pass.sizes.hidden, first = t * pass.sizes.streams;
  const T* gates = pass.tapes[kGates];
  ForElements(run.queue, "GruReset", pass.sizes.state(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t d = i % size, row = first + i / size;
    const float r = ToFloat(gates[row * 3 * size + d]), dr = ToFloat(at.dreset[i]);
    at.dz[row * 3 * size + d] = FromFloat<T>(dr * ToFloat(at.before[row * size + d]) * r * (1 - r));
    at.dh[i] = FromFloat<T>(ToFloat(at.dh[i]) + dr * r);
  });
}

// Computes dh' of the step's initial state from dz and dproduct of the step.
template <typename T>
void StepBackward(const GpuRun& run, const BackwardPass<T>& pass, int64_t t, bool reset_after,
                  const GruGradients<T>& at) {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  const T* weight = pass.Parameter(RecurrentBlob::kHidden);
  CudaGemm(run.queue, run.dtype, false, false, e.streams, size, size, at.dproduct + t * e.state(),
           size, weight + 2 * size * size, size, reset_after ? 1 : 0,
           reset_after ? at.dh : at.dreset, size);
  if (!reset_after) ResetSlopes(run, pass, t, at);
  CudaGemm(run.queue, run.dtype, false, false, e.streams, size, 2 * size,
           at.dz + t * e.streams * 3 * size, 3 * size, weight, size, 1, at.dh, size);
}

// Adds the gradients of W_h and b_h for all steps at once.
template <typename T>
void HiddenWeightGradients(const GpuRun& run, const BackwardPass<T>& pass, bool reset_after,
                           const GruGradients<T>& at) {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  if (T* grad = pass.ParameterGrad(RecurrentBlob::kHidden)) {
    CudaGemm(run.queue, run.dtype, true, false, 2 * size, size, e.rows(), at.dz, 3 * size,
             at.before, size, 1, grad, size);
    CudaGemm(run.queue, run.dtype, true, false, size, size, e.rows(), at.dproduct, size,
             reset_after ? at.before : at.factor, size, 1, grad + 2 * size * size, size);
  }
  T* grad = pass.ParameterGrad(RecurrentBlob::kExtraBias);
  if (grad == nullptr) return;
  AddColumnSums<T>(run.queue, e.rows(), 2 * size, 3 * size, at.dz, grad);
  AddColumnSums<T>(run.queue, e.rows(), size, size, at.dproduct, grad + 2 * size);
}

struct GruSteps {
  template <typename T>
  static void Forward(const GpuRun& run, const RecurrentLayer& layer, const ForwardPass<T>& pass) {
    const SequenceSize& e = pass.sizes;
    const int64_t width = 3 * e.hidden;
    const StepStart<T> hidden(pass, pass.initial[0], pass.y, pass.y_stride);
    T* before = pass.scratch;
    T* from_h = before + e.state();
    ProjectInput(run, pass, width, pass.tape[kGates]);
    for (int64_t k = 0; k < e.steps; ++k) {
      LoadHidden(run, hidden, k, before);
      if (!ResetAfter(layer)) {
        StepResetBefore<T>(run, pass, pass.Time(k), before, from_h);
        continue;
      }
      RepeatRows(run, pass.Parameter(RecurrentBlob::kExtraBias), 1, e.streams, width, from_h,
                 width);
      AddHiddenProduct<T>(run, pass, width, before, from_h);
      StepResetAfter<T>(run, pass, pass.Time(k), before, from_h);
    }
    StoreFinal(run, hidden, pass.final[0]);
  }

  template <typename T>
  static void Backward(const GpuRun& run, const RecurrentLayer& layer,
                       const BackwardPass<T>& pass) {
    const SequenceSize& e = pass.sizes;
    const GruGradients<T> at(pass);
    const StepStart<T> hidden(pass, pass.initial[0], pass.y, pass.y_stride);
    LoadAllHidden(run, hidden, at.before);
    CopyOrZero(run, pass.final_grads[0], e.state(), at.dh);
    for (int64_t k = e.steps - 1; k >= 0; --k) {
      GateGradients(run, pass, pass.Time(k), ResetAfter(layer), at);
      StepBackward(run, pass, pass.Time(k), ResetAfter(layer), at);
      ApplyFactors(run, hidden, k, at.dh);
    }
    if (pass.initial_grads[0] != nullptr) {
      CopyOrZero<T>(run, at.dh, e.state(), pass.initial_grads[0]);
    }
    ProjectInputBackward<T>(run, pass, 3 * e.hidden, at.dz);
    HiddenWeightGradients(run, pass, ResetAfter(layer), at);
  }
};

}  // namespace

void RegisterGRUCuda(Registry& registry) {
  registry.AddImplementation("GRU", CudaImplementation<GpuRecurrent<GruSteps>>());
}

}  // namespace crema
