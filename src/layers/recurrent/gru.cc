// GRU: a gated recurrent unit with the parameters of PyTorch and cuDNN (gates r, z, n):
//   r = sigmoid(W_xr x + b_r + W_hr h' + b_hr),  z = sigmoid(W_xz x + b_z + W_hz h' + b_hz)
//   reset_after: true   n = tanh(W_xn x + b_n + r (W_hn h' + b_hn))
//   reset_after: false  n = tanh(W_xn x + b_n + W_hn (r h')), and there is no b_h
//   h = (1 - z) n + z h', with h' multiplied by `cont`.
// K. Cho et al.: Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine
// Translation, EMNLP 2014 (arXiv:1406.1078; version 3 has reset_after).
// Saved for backward: the activated gates, and W_hn h' + b_hn.
#include <algorithm>

#include "crema.pb.h"
#include "layers/recurrent/for_rows.h"
#include "layers/recurrent/gru_gradients.h"
#include "layers/recurrent/lstm_cell.h"
#include "layers/recurrent/recurrent_layer.h"
#include "math/bias_activation.h"
#include "math/fast_exp.h"
#include "math/gemm.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr size_t kGates = 0;    // tapes
constexpr size_t kProduct = 1;  // W_hn h' + b_hn

struct GruSteps {
  explicit GruSteps(const LayerParameter& param)
      : reset_after(param.recurrent_param().reset_after()) {}

  RecurrentCell Describe() const {
    return {.gates = 3,
            .states = 1,
            .needs_cont = false,
            .roles = {"W_x", "b_x", "W_x_static", "W_h", nullptr, reset_after ? "b_h" : nullptr},
            .extra_bias = 3,
            .tapes = {3, reset_after ? 1 : 0}};
  }

  // h', and its contribution to the gates.
  static int64_t ForwardElements(const SequenceSize& e) { return 4 * e.state(); }
  // For all steps: dz; the gradient of n's product with W_hn; h'; the vectors that W_hn multiplies.
  // For one step: dh and the gradient of r h'.
  static int64_t BackwardElements(const SequenceSize& e) {
    return e.rows() * 6 * e.hidden + 2 * e.state();
  }

  template <typename T>
  void Forward(const ForwardPass<T>& pass) const;
  template <typename T>
  void Backward(const BackwardPass<T>& pass) const;

  const bool reset_after;
};

// Elements [begin, end) of one row with reset_after: `u` is W_h h' + b_h. `gates` hold the
// contribution of x and are replaced by the activated gates.
template <typename T>
CREMA_MULTIVERSION void RowResetAfter(int64_t size, int64_t begin, int64_t end, const T* u,
                                      const T* before, T* gates, T* product, T* h) {
#pragma GCC ivdep  // blobs do not overlap
  for (int64_t d = begin; d < end; ++d) {
    const T r = FastSigmoid(gates[d] + u[d]);
    const T z = FastSigmoid(gates[size + d] + u[size + d]);
    product[d] = u[2 * size + d];
    const T n = FastTanh(gates[2 * size + d] + r * product[d]);
    gates[d] = r;
    gates[size + d] = z;
    gates[2 * size + d] = n;
    h[d] = (T(1) - z) * n + z * before[d];
  }
}

// Without reset_after: the gates r and z, and r h'.
template <typename T>
CREMA_MULTIVERSION void RowGates(int64_t size, int64_t begin, int64_t end, const T* before,
                                 T* gates, T* reset) {
#pragma GCC ivdep
  for (int64_t d = begin; d < end; ++d) {
    gates[d] = FastSigmoid(gates[d]);
    gates[size + d] = FastSigmoid(gates[size + d]);
    reset[d] = gates[d] * before[d];
  }
}

// Then computes n and h.
template <typename T>
CREMA_MULTIVERSION void RowHidden(int64_t size, int64_t begin, int64_t end, const T* before,
                                  T* gates, T* h) {
#pragma GCC ivdep
  for (int64_t d = begin; d < end; ++d) {
    const T n = FastTanh(gates[2 * size + d]);
    gates[2 * size + d] = n;
    h[d] = (T(1) - gates[size + d]) * n + gates[size + d] * before[d];
  }
}

// One step with reset_after: `from_h` is W_h h' + b_h.
template <typename T>
void StepResetAfter(const ForwardPass<T>& pass, int64_t t, const T* before, const T* from_h) {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  ForRows(pass.threads, e.streams, size, kCellGrain, [&](int64_t s, int64_t begin, int64_t end) {
    const int64_t row = t * e.streams + s;
    RowResetAfter(size, begin, end, from_h + s * 3 * size, before + s * size,
                  pass.tape[kGates] + row * 3 * size, pass.tape[kProduct] + row * size,
                  pass.y + row * pass.y_stride);
  });
}

// One step without reset_after; the gates hold the contribution of x.
template <typename T>
void StepResetBefore(const ForwardPass<T>& pass, int64_t t, const T* before, T* reset) {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  const T* weight = pass.Parameter(RecurrentBlob::kHidden);
  T* step = pass.tape[kGates] + t * e.streams * 3 * size;
  Gemm<T>(pass.threads, false, true, e.streams, 2 * size, size, T(1), before, size, weight, size,
          T(1), step, 3 * size);
  ForRows(pass.threads, e.streams, size, kCellGrain, [&](int64_t s, int64_t begin, int64_t end) {
    RowGates(size, begin, end, before + s * size, step + s * 3 * size, reset + s * size);
  });
  Gemm<T>(pass.threads, false, true, e.streams, size, size, T(1), reset, size,
          weight + 2 * size * size, size, T(1), step + 2 * size, 3 * size);
  ForRows(pass.threads, e.streams, size, kCellGrain, [&](int64_t s, int64_t begin, int64_t end) {
    RowHidden(size, begin, end, before + s * size, step + s * 3 * size,
              pass.y + (t * e.streams + s) * pass.y_stride);
  });
}

template <typename T>
void GruSteps::Forward(const ForwardPass<T>& pass) const {
  const SequenceSize& e = pass.sizes;
  const int64_t width = 3 * e.hidden;
  const HiddenRows<T> hidden{pass.y, pass.y_stride};
  T* before = pass.scratch;
  T* from_h = before + e.state();
  ProjectInput(pass, width, pass.tape[kGates]);
  for (int64_t k = 0; k < e.steps; ++k) {
    LoadHidden(pass, k, hidden, before);
    if (!reset_after) {
      StepResetBefore(pass, pass.Time(k), before, from_h);
      continue;
    }
    const T* bias = pass.Parameter(RecurrentBlob::kExtraBias);
    for (int64_t n = 0; n < e.streams; ++n) std::copy(bias, bias + width, from_h + n * width);
    AddHiddenProduct<T>(pass, width, before, from_h);
    StepResetAfter(pass, pass.Time(k), before, from_h);
  }
  StoreFinal(pass, 0, hidden);
}

// Computes what does not need the gradient of r: dz of z and n, and the direct part of dh'.
template <typename T>
void GateGradients(const BackwardPass<T>& pass, int64_t t, bool reset_after,
                   const GruGradients<T>& at) {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  ForRows(pass.threads, e.streams, size, kCellGrain, [&](int64_t s, int64_t begin, int64_t end) {
    const int64_t row = t * e.streams + s;
    const T* gates = pass.tapes[kGates] + row * 3 * size;
    const T* before = at.before + row * size;
    const T* dy = pass.dy + row * pass.y_stride;
    T* dz = at.dz + row * 3 * size;
    T* dh = at.dh + s * size;
    for (int64_t d = begin; d < end; ++d) {
      const T r = gates[d], z = gates[size + d], n = gates[2 * size + d];
      const GruSlopes<T> slopes = GruBackward(z, n, before[d], dh[d] + dy[d]);
      dz[size + d] = slopes.z;
      dz[2 * size + d] = slopes.n;
      dh[d] = slopes.before;
      at.dproduct[row * size + d] = reset_after ? slopes.n * r : slopes.n;
      if (!reset_after) {
        at.factor[row * size + d] = r * before[d];
        continue;
      }
      dz[d] = slopes.n * pass.tapes[kProduct][row * size + d] * r * (T(1) - r);
    }
  });
}

// Without reset_after: the gradient through r h'.
template <typename T>
void ResetGradients(const BackwardPass<T>& pass, int64_t t, const GruGradients<T>& at) {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  Gemm<T>(pass.threads, false, false, e.streams, size, size, T(1), at.dproduct + t * e.state(),
          size, pass.Parameter(RecurrentBlob::kHidden) + 2 * size * size, size, T(0), at.dreset,
          size);
  ForRows(pass.threads, e.streams, size, kCellGrain, [&](int64_t s, int64_t begin, int64_t end) {
    const int64_t row = t * e.streams + s;
    for (int64_t d = begin; d < end; ++d) {
      const T r = pass.tapes[kGates][row * 3 * size + d];
      const T dr = at.dreset[s * size + d];
      at.dz[row * 3 * size + d] = dr * at.before[row * size + d] * r * (T(1) - r);
      at.dh[s * size + d] += dr * r;
    }
  });
}

// Adds the gradients of W_h and b_h for all steps at once.
template <typename T>
void HiddenWeightGradients(const BackwardPass<T>& pass, bool reset_after,
                           const GruGradients<T>& at) {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  if (T* grad = pass.ParameterGrad(RecurrentBlob::kHidden)) {
    Gemm<T>(pass.threads, true, false, 2 * size, size, e.rows(), T(1), at.dz, 3 * size, at.before,
            size, T(1), grad, size);
    Gemm<T>(pass.threads, true, false, size, size, e.rows(), T(1), at.dproduct, size,
            reset_after ? at.before : at.factor, size, T(1), grad + 2 * size * size, size);
  }
  T* grad = pass.ParameterGrad(RecurrentBlob::kExtraBias);
  if (grad == nullptr) return;
  for (int64_t row = 0; row < e.rows(); ++row) {
    for (int64_t d = 0; d < 2 * size; ++d) grad[d] += at.dz[row * 3 * size + d];
  }
  AddColumnSums<T>(e.rows(), size, at.dproduct, grad + 2 * size);
}

template <typename T>
void GruSteps::Backward(const BackwardPass<T>& pass) const {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden;
  const T* weight = pass.Parameter(RecurrentBlob::kHidden);
  const GruGradients<T> at(pass);
  LoadAllHidden(pass, HiddenRows<T>{pass.y, pass.y_stride}, at.before);
  CopyOrZero(pass.final_grads[0], e.state(), at.dh);
  for (int64_t k = e.steps - 1; k >= 0; --k) {
    const int64_t t = pass.Time(k);
    GateGradients(pass, t, reset_after, at);
    if (!reset_after) ResetGradients(pass, t, at);
    Gemm<T>(pass.threads, false, false, e.streams, size, 2 * size, T(1),
            at.dz + t * e.streams * 3 * size, 3 * size, weight, size, T(1), at.dh, size);
    if (reset_after) {
      Gemm<T>(pass.threads, false, false, e.streams, size, size, T(1), at.dproduct + t * e.state(),
              size, weight + 2 * size * size, size, T(1), at.dh, size);
    }
    ApplyFactors(pass, k, at.dh);
  }
  if (pass.initial_grads[0] != nullptr) CopyOrZero<T>(at.dh, e.state(), pass.initial_grads[0]);
  ProjectInputBackward(pass, 3 * size, at.dz);
  HiddenWeightGradients(pass, reset_after, at);
}

std::vector<LayerSample> Samples() {
  const SampleInput x{.shape = {5, 2, 3}};
  const SampleInput cont{.shape = {5, 2}, .low = 0, .high = 1, .integer = true};
  const SampleInput any_cont{.shape = {5, 2}, .low = 0, .high = 1};
  const SampleInput x_static{.shape = {2, 2}};
  const SampleInput state{.shape = {1, 2, 3}};
  const std::string both = "direction: BIDIRECTIONAL expose_hidden: true";
  return {
      RecurrentSample("plain", "", {x}),
      RecurrentSample("cont", "", {x, cont}),
      RecurrentSample("static", "", {x, cont, x_static}),
      RecurrentSample("expose_hidden", "expose_hidden: true", {x, state}, 2),
      RecurrentSample("cont_between_0_and_1", "expose_hidden: true", {x, any_cont, state}, 2),
      RecurrentSample("reverse", "direction: REVERSE", {x, cont}),
      RecurrentSample("bidirectional", both, {x, cont, x_static, {.shape = {2, 2, 3}}}, 2),
      RecurrentSample("reset_before", "reset_after: false", {x}),
      RecurrentSample("reset_before_all", "reset_after: false " + both,
                      {x, any_cont, x_static, {.shape = {2, 2, 3}}}, 2),
      // Large enough for several threads.
      RecurrentSample("reset_before_many", "reset_after: false", {{.shape = {2, 750, 2}}}),
      RecurrentSample(
          "many_streams", "",
          {{.shape = {2, 750, 2}}, {.shape = {2, 750}, .low = 0, .high = 1, .integer = true}}),
      RecurrentSample("no_streams", "", {{.shape = {3, 0, 2}}}),
      RecurrentSample("no_steps", "expose_hidden: true", {{.shape = {0, 2, 2}}, state}, 2),
  };
}

}  // namespace

void RegisterGRU(Registry& registry) {
  LayerType type = RecurrentType("GRU", GruSteps(LayerParameter()).Describe());
  type.summary = "Gated recurrent unit over whole sequences, forward, backward or both in time.";
  type.formula =
      "r, z = sigmoid(W_x x + b_x (+ W_x_static s) + W_h h' + b_h), "
      "n = tanh(W_x x + b_x (+ W_x_static s) + r (W_h h' + b_h)), h = (1 - z) n + z h', with the "
      "rows of each gate; reset_after: false: n = tanh(W_x x + b_x + W_h (r h')) without b_h";
  type.parameter_docs = {
      "W_x: 3D x I, rows in the order r, z, n (PyTorch's weight_ih)",
      "b_x: 3D (bias_ih)",
      "W_x_static: 3D x S, only with x_static",
      "W_h: 3D x D (weight_hh)",
      "b_h: 3D, only with reset_after (bias_hh)",
      "BIDIRECTIONAL: the same blobs again for the reverse direction",
  };
  type.differences = {
      "Caffe has no GRU. Bottoms, cont and states are those of LSTM; without cont, every batch "
      "begins with zeros."};
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const RecurrentLayerOf<GruSteps>>(p);
  };
  type.samples = Samples();
  registry.Add(std::move(type));
}

}  // namespace crema
