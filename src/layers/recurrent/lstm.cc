// LSTM as in Caffe (no peepholes, gates in the order i, f, o, g):
//   [i f o g] = W_xc x + b_c (+ W_xc_static s) + W_hc (cont h');  i, f, o: sigmoid, g: tanh
//   c = f (cont c') + i g,  h = o tanh(c),  and the output is h.
// S. Hochreiter, J. Schmidhuber: Long Short-Term Memory, Neural Computation 9(8), 1997; with the
// forget gate of F. Gers, J. Schmidhuber, F. Cummins: Learning to Forget, 2000.
// The input projection of all steps is one product before the loop over time; the gradients of all
// weights are products after it. Saved for backward: the activated gates, and c.
#include <algorithm>

#include "crema.pb.h"
#include "layers/recurrent/for_rows.h"
#include "layers/recurrent/lstm_cell.h"
#include "layers/recurrent/recurrent_layer.h"
#include "math/gemm.h"

namespace crema {
namespace {

constexpr size_t kGates = 0;  // tapes
constexpr size_t kCells = 1;

struct LstmSteps {
  explicit LstmSteps(const LayerParameter&) {}

  static RecurrentCell Describe() {
    return {.gates = 4,
            .states = 2,
            .roles = {"W_xc", "b_c", "W_xc_static", "W_hc", nullptr, nullptr},
            .tapes = {4, 1}};
  }

  static int64_t ForwardElements(const SequenceSize& e) { return e.state(); }
  // For all steps: dz, and the hidden states before them. For one step: dh and dc.
  static int64_t BackwardElements(const SequenceSize& e) {
    return e.rows() * 5 * e.hidden + 2 * e.state();
  }

  template <typename T>
  void Forward(const ForwardPass<T>& pass) const;
  template <typename T>
  void Backward(const BackwardPass<T>& pass) const;
};

// Returns the cells before the k-th step, without the factors; null means zeros.
template <typename T>
const T* CellsBefore(const SequencePass<T>& pass, int64_t k, const T* cells) {
  return k == 0 ? pass.initial[1] : cells + pass.Time(k - 1) * pass.sizes.state();
}

template <typename T>
void LstmSteps::Forward(const ForwardPass<T>& pass) const {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden, width = 4 * size;
  T* gates = pass.tape[kGates];
  T* cells = pass.tape[kCells];
  const HiddenRows<T> hidden{pass.y, pass.y_stride};
  ProjectInput(pass, width, gates);
  for (int64_t k = 0; k < e.steps; ++k) {
    const int64_t t = pass.Time(k);
    T* z = gates + t * e.streams * width;
    LoadHidden(pass, k, hidden, pass.scratch);
    AddHiddenProduct<T>(pass, width, pass.scratch, z);
    const T* before = CellsBefore(pass, k, cells);
    const T* factors = pass.Factors(k);
    ForRows(pass.threads, e.streams, size, kCellGrain, [&](int64_t n, int64_t begin, int64_t end) {
      const int64_t row = t * e.streams + n;
      LstmRowForward<T>(size, begin, end, z + n * width,
                        before == nullptr ? nullptr : before + n * size,
                        factors == nullptr ? T(1) : factors[n], z + n * width, cells + row * size,
                        pass.y + row * pass.y_stride);
    });
  }
  StoreFinal(pass, 0, hidden);
  StoreFinal(pass, 1, HiddenRows<T>{cells, size});
}

template <typename T>
void LstmSteps::Backward(const BackwardPass<T>& pass) const {
  const SequenceSize& e = pass.sizes;
  const int64_t size = e.hidden, width = 4 * size;
  T* dz = pass.scratch;
  T* before = dz + e.rows() * width;
  T* dh = before + e.rows() * size;
  T* dc = dh + e.state();
  CopyOrZero(pass.final_grads[0], e.state(), dh);
  CopyOrZero(pass.final_grads[1], e.state(), dc);
  for (int64_t k = e.steps - 1; k >= 0; --k) {
    const int64_t t = pass.Time(k);
    const T* cells_before = CellsBefore(pass, k, pass.tapes[kCells]);
    const T* factors = pass.Factors(k);
    ForRows(pass.threads, e.streams, size, kCellGrain, [&](int64_t n, int64_t begin, int64_t end) {
      const int64_t row = t * e.streams + n;
      const T* dy = pass.dy + row * pass.y_stride;
      for (int64_t d = begin; d < end; ++d) dh[n * size + d] += dy[d];
      LstmRowBackward<T>(size, begin, end, pass.tapes[kGates] + row * width,
                         pass.tapes[kCells] + row * size,
                         cells_before == nullptr ? nullptr : cells_before + n * size,
                         factors == nullptr ? T(1) : factors[n], dc + n * size, dh + n * size,
                         dz + row * width, dc + n * size);
    });
    HiddenProductBackward<T>(pass, width, dz + t * e.streams * width, dh);
    ApplyFactors(pass, k, dh);
  }
  if (pass.initial_grads[1] != nullptr) CopyOrZero<T>(dc, e.state(), pass.initial_grads[1]);
  FinishBackward<T>(pass, width, {pass.y, pass.y_stride}, dz, dh, before);
}

std::vector<LayerSample> Samples() {
  const SampleInput x{.shape = {5, 2, 3}};
  const SampleInput cont{.shape = {5, 2}, .low = 0, .high = 1, .integer = true};
  const SampleInput any_cont{.shape = {5, 2}, .low = 0, .high = 1};
  const SampleInput x_static{.shape = {2, 2, 2}};
  const SampleInput state{.shape = {1, 2, 3}};
  const SampleInput states{.shape = {2, 2, 3}};
  const std::string both = "direction: BIDIRECTIONAL";
  return {
      RecurrentSample("plain", "", {x, cont}),
      RecurrentSample("static", "", {x, cont, x_static}),
      RecurrentSample("expose_hidden", "expose_hidden: true", {x, cont, state, state}, 3),
      RecurrentSample("cont_between_0_and_1", "expose_hidden: true", {x, any_cont, state, state},
                      3),
      RecurrentSample("reverse", "direction: REVERSE", {x, cont, x_static}),
      RecurrentSample("reverse_expose", "direction: REVERSE expose_hidden: true",
                      {x, any_cont, state, state}, 3),
      RecurrentSample("bidirectional", both, {x, cont}),
      RecurrentSample("bidirectional_all", both + " expose_hidden: true",
                      {x, cont, x_static, states, states}, 3),
      RecurrentSample(
          "features_of_two_axes", "",
          {{.shape = {2, 3, 2, 2}}, {.shape = {2, 3}, .low = 0, .high = 1, .integer = true}}),
      // Large enough for several threads.
      RecurrentSample(
          "many_streams", "",
          {{.shape = {2, 750, 2}}, {.shape = {2, 750}, .low = 0, .high = 1, .integer = true}}),
      RecurrentSample("no_streams", "", {{.shape = {3, 0, 2}}, {.shape = {3, 0}}}),
      RecurrentSample("no_steps", "expose_hidden: true",
                      {{.shape = {0, 2, 2}}, {.shape = {0, 2}}, state, state}, 3),
  };
}

}  // namespace

void RegisterLSTM(Registry& registry) {
  LayerType type = RecurrentType("LSTM", LstmSteps::Describe());
  type.summary = "Long short-term memory over whole sequences, forward, backward or both in time.";
  type.formula =
      "[i f o g] = W_xc x + b_c (+ W_xc_static s) + W_hc (cont h'), i f o: sigmoid, g: tanh; "
      "c = f (cont c') + i g; h = o tanh(c); the output is h";
  type.parameter_docs = {
      "W_xc: 4D x I, rows in the order i, f, o, g",
      "b_c: 4D",
      "W_xc_static: 4D x S, only with x_static",
      "W_hc: 4D x D",
      "BIDIRECTIONAL: the same blobs again for the reverse direction",
  };
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const RecurrentLayerOf<LstmSteps>>(p);
  };
  type.samples = Samples();
  registry.Add(std::move(type));
}

}  // namespace crema
