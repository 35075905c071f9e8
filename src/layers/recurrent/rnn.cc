// RNN as in Caffe, with an output computed from the hidden state:
//   h = tanh(W_xh x + b_h (+ W_xh_static s) + W_hh (cont h')),  o = tanh(W_ho h + b_o)
// The input projection of all steps is one product before the loop over time; the output projection
// is one product after it. Saved for backward: h.
// J. Elman: Finding Structure in Time, Cognitive Science 14(2), 1990.
#include <cmath>

#include "crema.pb.h"
#include "layers/recurrent/for_rows.h"
#include "layers/recurrent/recurrent_layer.h"
#include "math/bias_activation.h"
#include "math/gemm.h"

namespace crema {
namespace {

struct RnnSteps {
  explicit RnnSteps(const LayerParameter&) {}

  static RecurrentCell Describe() {
    return {.gates = 1,
            .states = 1,
            .roles = {"W_xh", "b_h", "W_xh_static", "W_hh", "W_ho", "b_o"},
            .tapes = {1, 0}};
  }

  static int64_t ForwardElements(const SequenceSize& e) { return e.state(); }
  // For all steps: do, dz (first the gradient of h from o), h before each step. For one step: dh.
  static int64_t BackwardElements(const SequenceSize& e) {
    return 3 * e.rows() * e.hidden + e.state();
  }

  template <typename T>
  void Forward(const ForwardPass<T>& pass) const;
  template <typename T>
  void Backward(const BackwardPass<T>& pass) const;
};

template <typename T>
void RnnSteps::Forward(const ForwardPass<T>& pass) const {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  T* h = pass.tape[0];
  const HiddenRows<T> hidden{h, size};
  ProjectInput(pass, size, h);
  for (int64_t k = 0; k < e.steps; ++k) {
    T* z = h + pass.Time(k) * e.state();
    LoadHidden(pass, k, hidden, pass.scratch);
    AddHiddenProduct<T>(pass, size, pass.scratch, z);
    ParallelFor(pass.threads, e.state(), kCellGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) z[i] = std::tanh(z[i]);
    });
  }
  StoreFinal(pass, 0, hidden);
  const T* bias = pass.Parameter(RecurrentBlob::kExtraBias);
  for (int64_t row = 0; row < e.rows(); ++row) {
    std::copy(bias, bias + size, pass.y + row * pass.y_stride);
  }
  Gemm<T>(pass.threads, false, true, e.rows(), size, size, T(1), h, size,
          pass.Parameter(RecurrentBlob::kExtra), size, T(1), pass.y, pass.y_stride);
  ForRows(pass.threads, e.rows(), size, kCellGrain, [&](int64_t row, int64_t begin, int64_t end) {
    T* y = pass.y + row * pass.y_stride;
    for (int64_t d = begin; d < end; ++d) y[d] = std::tanh(y[d]);
  });
}

// Writes dh (rows x hidden), the gradient of h from the outputs. Adds the gradients of W_ho and
// b_o.
template <typename T>
void OutputBackward(const BackwardPass<T>& pass, T* dout, T* dh) {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  ForRows(pass.threads, e.rows(), size, kCellGrain, [&](int64_t row, int64_t begin, int64_t end) {
    const T* y = pass.y + row * pass.y_stride;
    const T* dy = pass.dy + row * pass.y_stride;
    for (int64_t d = begin; d < end; ++d) dout[row * size + d] = dy[d] * (T(1) - y[d] * y[d]);
  });
  Gemm<T>(pass.threads, false, false, e.rows(), size, size, T(1), dout, size,
          pass.Parameter(RecurrentBlob::kExtra), size, T(0), dh, size);
  if (T* grad = pass.ParameterGrad(RecurrentBlob::kExtraBias)) {
    AddColumnSums<T>(e.rows(), size, dout, grad);
  }
  T* grad = pass.ParameterGrad(RecurrentBlob::kExtra);
  if (grad == nullptr) return;
  Gemm<T>(pass.threads, true, false, size, size, e.rows(), T(1), dout, size, pass.tapes[0], size,
          T(1), grad, size);
}

template <typename T>
void RnnSteps::Backward(const BackwardPass<T>& pass) const {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  const T* h = pass.tapes[0];
  T* dout = pass.scratch;
  T* dz = dout + e.rows() * size;
  T* before = dz + e.rows() * size;
  T* dh = before + e.rows() * size;
  OutputBackward(pass, dout, dz);
  CopyOrZero(pass.final_grads[0], e.state(), dh);
  for (int64_t k = e.steps - 1; k >= 0; --k) {
    const int64_t at = pass.Time(k) * e.state();
    ParallelFor(pass.threads, e.state(), kCellGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        dz[at + i] = (dz[at + i] + dh[i]) * (T(1) - h[at + i] * h[at + i]);
      }
    });
    HiddenProductBackward<T>(pass, size, dz + at, dh);
    ApplyFactors(pass, k, dh);
  }
  FinishBackward<T>(pass, size, {h, size}, dz, dh, before);
}

std::vector<LayerSample> Samples() {
  const SampleInput x{.shape = {5, 2, 3}};
  const SampleInput cont{.shape = {5, 2}, .low = 0, .high = 1, .integer = true};
  const SampleInput x_static{.shape = {2, 2}};
  return {
      RecurrentSample("plain", "", {x, cont}),
      RecurrentSample("static", "", {x, cont, x_static}),
      RecurrentSample("expose_hidden", "expose_hidden: true", {x, cont, {.shape = {1, 2, 3}}}, 2),
      RecurrentSample("reverse", "direction: REVERSE", {x, cont}),
      RecurrentSample("bidirectional", "direction: BIDIRECTIONAL expose_hidden: true",
                      {x, cont, x_static, {.shape = {2, 2, 3}}}, 2),
      // Large enough for several threads.
      RecurrentSample(
          "many_streams", "",
          {{.shape = {2, 750, 2}}, {.shape = {2, 750}, .low = 0, .high = 1, .integer = true}}),
      RecurrentSample("no_streams", "", {{.shape = {3, 0, 2}}, {.shape = {3, 0}}}),
  };
}

}  // namespace

void RegisterRNN(Registry& registry) {
  LayerType type = RecurrentType("RNN", RnnSteps::Describe());
  type.summary = "Simple recurrent net over whole sequences, with an output layer of its own.";
  type.formula =
      "h = tanh(W_xh x + b_h (+ W_xh_static s) + W_hh (cont h')); o = tanh(W_ho h + b_o); "
      "the output is o";
  type.parameter_docs = {
      "W_xh: D x I",
      "b_h: D",
      "W_xh_static: D x S, only with x_static",
      "W_hh: D x D",
      "W_ho: D x D",
      "b_o: D",
      "BIDIRECTIONAL: the same blobs again for the reverse direction",
  };
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const RecurrentLayerOf<RnnSteps>>(p);
  };
  type.samples = Samples();
  registry.Add(std::move(type));
}

}  // namespace crema
