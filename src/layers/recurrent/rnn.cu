// RNN on the GPU; see rnn.cc.
#include "layers/recurrent/recurrent_implementation.cuh"

namespace crema {
namespace {

// Applies tanh in place to rows of `size` elements, `stride` apart.
template <typename T>
void TanhRows(const GpuRun& run, int64_t rows, int64_t size, T* data, int64_t stride) {
  ForElements(run.queue, "TanhRows", rows * size, [=] CREMA_HOST_DEVICE(int64_t i) {
    T* at = data + i / size * stride + i % size;
    *at = FromFloat<T>(std::tanh(ToFloat(*at)));
  });
}

// dout = dy (1 - y^2)
template <typename T>
void OutputSlopes(const GpuRun& run, const BackwardPass<T>& pass, T* dout) {
  const int64_t size = pass.sizes.hidden, stride = pass.y_stride;
  const T* all_y = pass.y;
  const T* dy = pass.dy;
  ForElements(run.queue, "RnnOutput", pass.sizes.rows() * size, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t at = i / size * stride + i % size;
    const float y = ToFloat(all_y[at]);
    dout[i] = FromFloat<T>(ToFloat(dy[at]) * (1 - y * y));
  });
}

// dz = (dz + dh) (1 - h^2); on input dz is the gradient of h from the outputs.
template <typename T>
void HiddenSlopes(const GpuRun& run, int64_t count, const T* h, const T* dh, T* dz) {
  ForElements(run.queue, "RnnHidden", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const float own = ToFloat(h[i]);
    dz[i] = FromFloat<T>((ToFloat(dz[i]) + ToFloat(dh[i])) * (1 - own * own));
  });
}

// Writes dh (rows x hidden), the gradient of h from the outputs. Adds the gradients of W_ho and
// b_o.
template <typename T>
void OutputBackward(const GpuRun& run, const BackwardPass<T>& pass, T* dout, T* dh) {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  OutputSlopes(run, pass, dout);
  CudaGemm(run.queue, run.dtype, false, false, e.rows(), size, size, dout, size,
           pass.Parameter(RecurrentBlob::kExtra), size, 0, dh, size);
  if (T* grad = pass.ParameterGrad(RecurrentBlob::kExtraBias)) {
    AddColumnSums<T>(run.queue, e.rows(), size, size, dout, grad);
  }
  T* grad = pass.ParameterGrad(RecurrentBlob::kExtra);
  if (grad == nullptr) return;
  CudaGemm(run.queue, run.dtype, true, false, size, size, e.rows(), dout, size, pass.tapes[0], size,
           1, grad, size);
}

struct RnnSteps {
  template <typename T>
  static void Forward(const GpuRun& run, const RecurrentLayer&, const ForwardPass<T>& pass) {
    const SequenceSize& e = pass.sizes;
    const int64_t size = e.hidden;
    T* h = pass.tape[0];
    const StepStart<T> hidden(pass, pass.initial[0], h, size);
    ProjectInput(run, pass, size, h);
    for (int64_t k = 0; k < e.steps; ++k) {
      T* z = h + pass.Time(k) * e.state();
      LoadHidden(run, hidden, k, pass.scratch);
      AddHiddenProduct<T>(run, pass, size, pass.scratch, z);
      TanhRows(run, e.streams, size, z, size);
    }
    StoreFinal(run, hidden, pass.final[0]);
    RepeatRows(run, pass.Parameter(RecurrentBlob::kExtraBias), 1, e.rows(), size, pass.y,
               pass.y_stride);
    CudaGemm(run.queue, run.dtype, false, true, e.rows(), size, size, h, size,
             pass.Parameter(RecurrentBlob::kExtra), size, 1, pass.y, pass.y_stride);
    TanhRows(run, e.rows(), size, pass.y, pass.y_stride);
  }

  template <typename T>
  static void Backward(const GpuRun& run, const RecurrentLayer&, const BackwardPass<T>& pass) {
    const SequenceSize& e = pass.sizes;
    const int64_t size = e.hidden;
    const T* h = pass.tapes[0];
    T* dout = pass.scratch;
    T* dz = dout + e.rows() * size;
    T* before = dz + e.rows() * size;
    T* dh = before + e.rows() * size;
    const StepStart<T> hidden(pass, pass.initial[0], h, size);
    OutputBackward(run, pass, dout, dz);
    CopyOrZero(run, pass.final_grads[0], e.state(), dh);
    for (int64_t k = e.steps - 1; k >= 0; --k) {
      const int64_t at = pass.Time(k) * e.state();
      HiddenSlopes<T>(run, e.state(), h + at, dh, dz + at);
      HiddenProductBackward<T>(run, pass, size, dz + at, dh);
      ApplyFactors(run, hidden, k, dh);
    }
    FinishBackward<T>(run, pass, size, hidden, dz, dh, before);
  }
};

}  // namespace

void RegisterRNNCuda(Registry& registry) {
  registry.AddImplementation("RNN", CudaImplementation<GpuRecurrent<RnnSteps>>());
}

}  // namespace crema
