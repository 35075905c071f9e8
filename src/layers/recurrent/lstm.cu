// LSTM on the GPU; see lstm.cc.
#include "layers/recurrent/recurrent_implementation.cuh"

namespace crema {
namespace {

constexpr size_t kGates = 0;  // tapes
constexpr size_t kCells = 1;

// One step; replaces `gates` with their activations.
template <typename T>
void Step(const GpuRun& run, const ForwardPass<T>& pass, const StepStart<T>& cells, int64_t k) {
  const int64_t size = pass.sizes.hidden, first = pass.Time(k) * pass.sizes.streams;
  const int64_t y_stride = pass.y_stride;
  T* gates = pass.tape[kGates];
  T* c = pass.tape[kCells];
  T* y = pass.y;
  ForElements(run.queue, "LstmStep", pass.sizes.state(), [=] CREMA_HOST_DEVICE(int64_t at) {
    const int64_t n = at / size, d = at % size, row = first + n;
    T* z = gates + row * 4 * size + d;
    const float i = GateSigmoid(ToFloat(z[0])), f = GateSigmoid(ToFloat(z[size]));
    const float o = GateSigmoid(ToFloat(z[2 * size])), g = std::tanh(ToFloat(z[3 * size]));
    z[0] = FromFloat<T>(i);
    z[size] = FromFloat<T>(f);
    z[2 * size] = FromFloat<T>(o);
    z[3 * size] = FromFloat<T>(g);
    const float cell = f * cells.Of(k, n, d) + i * g;
    c[row * size + d] = FromFloat<T>(cell);
    y[row * y_stride + d] = FromFloat<T>(o * std::tanh(cell));
  });
}

// Computes dz, and dc before the step, from dh and dc after it.
template <typename T>
void StepBackward(const GpuRun& run, const BackwardPass<T>& pass, const StepStart<T>& cells,
                  int64_t k, const T* dh, T* dc, T* dz) {
  const int64_t size = pass.sizes.hidden, first = pass.Time(k) * pass.sizes.streams;
  const int64_t y_stride = pass.y_stride;
  const T* gates = pass.tapes[kGates];
  const T* c = pass.tapes[kCells];
  const T* dy = pass.dy;
  ForElements(run.queue, "LstmBackward", pass.sizes.state(), [=] CREMA_HOST_DEVICE(int64_t at) {
    const int64_t n = at / size, d = at % size, row = first + n;
    const T* gate = gates + row * 4 * size + d;
    const LstmSlopes<float> slopes = LstmBackward(
        ToFloat(gate[0]), ToFloat(gate[size]), ToFloat(gate[2 * size]), ToFloat(gate[3 * size]),
        cells.Of(k, n, d), std::tanh(ToFloat(c[row * size + d])), ToFloat(dc[at]),
        ToFloat(dh[at]) + ToFloat(dy[row * y_stride + d]));
    dc[at] = FromFloat<T>(Masked(cells.Factor(k, n), slopes.before));
    T* to = dz + row * 4 * size + d;
    to[0] = FromFloat<T>(slopes.i);
    to[size] = FromFloat<T>(slopes.f);
    to[2 * size] = FromFloat<T>(slopes.o);
    to[3 * size] = FromFloat<T>(slopes.g);
  });
}

struct LstmSteps {
  template <typename T>
  static void Forward(const GpuRun& run, const RecurrentLayer&, const ForwardPass<T>& pass) {
    const SequenceSize& e = pass.sizes;
    const int64_t size = e.hidden, width = 4 * size;
    const StepStart<T> hidden(pass, pass.initial[0], pass.y, pass.y_stride);
    const StepStart<T> cells(pass, pass.initial[1], pass.tape[kCells], size);
    ProjectInput(run, pass, width, pass.tape[kGates]);
    for (int64_t k = 0; k < e.steps; ++k) {
      LoadHidden(run, hidden, k, pass.scratch);
      AddHiddenProduct<T>(run, pass, width, pass.scratch,
                          pass.tape[kGates] + pass.Time(k) * e.streams * width);
      Step(run, pass, cells, k);
    }
    StoreFinal(run, hidden, pass.final[0]);
    StoreFinal(run, cells, pass.final[1]);
  }

  template <typename T>
  static void Backward(const GpuRun& run, const RecurrentLayer&, const BackwardPass<T>& pass) {
    const SequenceSize& e = pass.sizes;
    const int64_t size = e.hidden, width = 4 * size;
    T* dz = pass.scratch;
    T* before = dz + e.rows() * width;
    T* dh = before + e.rows() * size;
    T* dc = dh + e.state();
    const StepStart<T> hidden(pass, pass.initial[0], pass.y, pass.y_stride);
    const StepStart<T> cells(pass, pass.initial[1], pass.tapes[kCells], size);
    CopyOrZero(run, pass.final_grads[0], e.state(), dh);
    CopyOrZero(run, pass.final_grads[1], e.state(), dc);
    for (int64_t k = e.steps - 1; k >= 0; --k) {
      StepBackward(run, pass, cells, k, dh, dc, dz);
      HiddenProductBackward<T>(run, pass, width, dz + pass.Time(k) * e.streams * width, dh);
      ApplyFactors(run, hidden, k, dh);
    }
    if (pass.initial_grads[1] != nullptr) CopyOrZero<T>(run, dc, e.state(), pass.initial_grads[1]);
    FinishBackward<T>(run, pass, width, hidden, dz, dh, before);
  }
};

}  // namespace

void RegisterLSTMCuda(Registry& registry) {
  registry.AddImplementation("LSTM", CudaImplementation<GpuRecurrent<LstmSteps>>());
}

}  // namespace crema
