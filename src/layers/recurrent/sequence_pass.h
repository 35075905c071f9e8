// One pass in one direction of time through a recurrent layer: sizes, pointers, and the computation
// that all cells share. T is float or double.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace crema {

// Sizes of one batch of sequences. Rows are (step, stream) pairs in the order of steps.
struct SequenceSize {
  int64_t steps = 0;    // T
  int64_t streams = 0;  // N
  int64_t inputs = 0;   // features of x
  int64_t hidden = 0;   // D, num_output
  int64_t statics = 0;  // features of x_static; 0 means none

  int64_t rows() const { return steps * streams; }
  int64_t state() const { return streams * hidden; }
};

// The parameters of one direction, in the order of the caffemodel.
enum class RecurrentBlob : size_t { kInput, kBias, kStatic, kHidden, kExtra, kExtraBias };
constexpr size_t kRecurrentBlobs = 6;
constexpr size_t kMostStates = 2;  // h, and c of the LSTM
constexpr size_t kMostTapes = 2;   // saved tensors of every step

template <typename T>
using BlobPointers = std::array<T*, kRecurrentBlobs>;

// Matrix products with the weights of one direction in f32 that are faster than Gemm.
class SequenceProducts {
 public:
  virtual ~SequenceProducts() = default;
  // z (rows x width) += x W_x^T for all steps. Returns false if it did nothing.
  virtual bool AddInput(const float* x, float* z) = 0;
  // z (streams x width) += h W_h^T for one step.
  virtual void AddHidden(const float* h, float* z) = 0;
  // dh (streams x hidden) = dz W_h for one step.
  virtual void HiddenGradient(const float* dz, float* dh) = 0;
};

template <typename T>
struct SequencePass {
  int threads = 1;
  SequenceSize sizes;
  bool reverse = false;  // time runs from the last step to the first
  const T* x = nullptr;
  const T* cont = nullptr;      // steps x streams; null: a batch holds whole sequences
  const T* x_static = nullptr;  // streams x statics
  BlobPointers<const T> parameters{};
  std::array<const T*, kMostStates> initial{};  // streams x hidden; null means zeros
  std::array<const T*, kMostTapes> tapes{};     // for backward: as written by forward
  int64_t y_stride = 0;                         // distance of the rows of y
  T* static_scratch = nullptr;                  // streams x gate width, with a static input
  T* scratch = nullptr;                         // as many elements as the cell requests
  SequenceProducts* products = nullptr;         // null means Gemm

  const T* Parameter(RecurrentBlob blob) const { return parameters[static_cast<size_t>(blob)]; }
  // Returns the time of the k-th step in order of computation.
  int64_t Time(int64_t k) const { return reverse ? sizes.steps - 1 - k : k; }
  // Returns one factor per stream on the state before the k-th step; null means that all are 1. A
  // sequence starts where cont is 0; in reverse, the later step has that cont.
  const T* Factors(int64_t k) const {
    if (cont == nullptr || (reverse && k == 0)) return nullptr;
    return cont + (reverse ? Time(k) + 1 : Time(k)) * sizes.streams;
  }
};

template <typename T>
struct ForwardPass : SequencePass<T> {
  std::array<T*, kMostTapes> tape{};    // to be written; saved or scratch
  std::array<T*, kMostStates> final{};  // streams x hidden, to be written
  T* y = nullptr;                       // rows x hidden, `y_stride` apart
};

template <typename T>
struct BackwardPass : SequencePass<T> {
  const T* y = nullptr;
  const T* dy = nullptr;
  std::array<const T*, kMostStates> final_grads{};  // streams x hidden
  std::array<T*, kMostStates> initial_grads{};      // streams x hidden; null if not needed
  T* dx = nullptr;                                  // null if not needed
  T* dstatic = nullptr;                             // null if not needed
  bool accumulate = false;                          // add to dx and dstatic of the other direction
  BlobPointers<T> parameter_grads{};                // added to; null if not needed

  T* ParameterGrad(RecurrentBlob blob) const { return parameter_grads[static_cast<size_t>(blob)]; }
};

// Rows of hidden states; row i begins at data + i * stride.
template <typename T>
struct HiddenRows {
  const T* data = nullptr;
  int64_t stride = 0;
};

constexpr int64_t kCellGrain = 1 << 10;  // fewest elements of a state per thread

// z (rows x width) = b + W_x x + W_static x_static, for all steps in one product.
template <typename T>
void ProjectInput(const ForwardPass<T>& pass, int64_t width, T* z);

// z (streams x width) += h W_h^T; h is streams x hidden.
template <typename T>
void AddHiddenProduct(const ForwardPass<T>& pass, int64_t width, const T* h, T* z);

// dh = dz W_h, the gradient of AddHiddenProduct.
template <typename T>
void HiddenProductBackward(const BackwardPass<T>& pass, int64_t width, const T* dz, T* dh);

// Computes dx and dstatic from dz, and adds the gradients of W_x, b and W_static.
template <typename T>
void ProjectInputBackward(const BackwardPass<T>& pass, int64_t width, const T* dz);

// Writes the hidden state before the k-th step to out (streams x hidden): the previous or initial
// state times the factors. A factor of 0 gives 0 even for an infinite or NaN state.
template <typename T>
void LoadHidden(const SequencePass<T>& pass, int64_t k, const HiddenRows<T>& hidden, T* out);
// Does the same for all steps; out is rows x hidden, in the time order of the data.
template <typename T>
void LoadAllHidden(const SequencePass<T>& pass, const HiddenRows<T>& hidden, T* out);

// Ends a backward pass that has left dz of all steps and dh before the first: ProjectInputBackward,
// the initial gradient of h, and the gradient of W_h. `before` has room for rows x hidden.
template <typename T>
void FinishBackward(const BackwardPass<T>& pass, int64_t width, const HiddenRows<T>& hidden,
                    const T* dz, const T* dh, T* before);

// grad (streams x hidden) *= the factors of the k-th step: converts the gradient of the state
// before the step to that of the state after the previous step.
template <typename T>
void ApplyFactors(const SequencePass<T>& pass, int64_t k, T* grad);

// Writes the state after the last step: row block Time(steps - 1), or the initial state if there
// are no steps. Does nothing if it is not needed.
template <typename T>
void StoreFinal(const ForwardPass<T>& pass, size_t state, const HiddenRows<T>& rows);

// dst = src, or zeros if src is null.
template <typename T>
void CopyOrZero(const T* src, int64_t count, T* dst);

}  // namespace crema
