// One direction of time through one recurrent layer: extents, pointers, and the parts of the work
// that every cell shares. T is float or double.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace crema {

// Extents of one batch of sequences. Rows are (step, stream) pairs, step by step.
struct SequenceSize {
  int64_t steps = 0;    // T
  int64_t streams = 0;  // N
  int64_t inputs = 0;   // features of x
  int64_t hidden = 0;   // D, num_output
  int64_t statics = 0;  // features of x_static; 0: there is none

  int64_t rows() const { return steps * streams; }
  int64_t state() const { return streams * hidden; }
};

// The learned blobs of one direction, in the order of the caffemodel.
enum class RecurrentBlob : size_t { kInput, kBias, kStatic, kHidden, kExtra, kExtraBias };
constexpr size_t kRecurrentBlobs = 6;
constexpr size_t kMostStates = 2;  // h, and c of the LSTM
constexpr size_t kMostTapes = 2;   // what a cell keeps of every step

template <typename T>
using BlobPointers = std::array<T*, kRecurrentBlobs>;

// Products with the weights of one direction in single precision that are faster than Gemm.
class SequenceProducts {
 public:
  virtual ~SequenceProducts() = default;
  // z (rows x width) += x W_x^T of all steps; false: nothing was done.
  virtual bool AddInput(const float* x, float* z) = 0;
  // z (streams x width) += h W_h^T of one step.
  virtual void AddHidden(const float* h, float* z) = 0;
  // dh (streams x hidden) = dz W_h of one step, the way back.
  virtual void HiddenGradient(const float* dz, float* dh) = 0;
};

template <typename T>
struct SequencePass {
  int threads = 1;
  SequenceSize extent;
  bool reverse = false;  // time runs from the last step to the first
  const T* x = nullptr;
  const T* cont = nullptr;      // steps x streams; null: every sequence is one batch long
  const T* x_static = nullptr;  // streams x statics
  BlobPointers<const T> learned{};
  std::array<const T*, kMostStates> initial{};  // streams x hidden; null: zeros
  std::array<const T*, kMostTapes> tapes{};     // backward: as forward left them
  int64_t y_stride = 0;                         // from one row of y to the next
  T* static_scratch = nullptr;           // streams x gate width, where there is a static input
  T* scratch = nullptr;                  // as many elements as the cell books
  SequenceProducts* products = nullptr;  // null: by Gemm

  const T* Learned(RecurrentBlob blob) const { return learned[static_cast<size_t>(blob)]; }
  // The step that is computed as k-th.
  int64_t Time(int64_t k) const { return reverse ? extent.steps - 1 - k : k; }
  // Factors, one a stream, on the state that the k-th step starts from; null: all are 1. A
  // sequence starts where cont is 0; backward in time that is the step behind.
  const T* Factors(int64_t k) const {
    if (cont == nullptr || (reverse && k == 0)) return nullptr;
    return cont + (reverse ? Time(k) + 1 : Time(k)) * extent.streams;
  }
};

template <typename T>
struct ForwardPass : SequencePass<T> {
  std::array<T*, kMostTapes> tape{};    // to be written; saved for backward or scratch
  std::array<T*, kMostStates> final{};  // streams x hidden, to be written
  T* y = nullptr;                       // rows x hidden, `y_stride` apart
};

template <typename T>
struct BackwardPass : SequencePass<T> {
  const T* y = nullptr;
  const T* dy = nullptr;
  std::array<const T*, kMostStates> final_grads{};  // streams x hidden
  std::array<T*, kMostStates> initial_grads{};      // streams x hidden; null: not wanted
  T* dx = nullptr;                                  // null: not wanted
  T* dstatic = nullptr;                             // null: not wanted
  bool accumulate = false;          // dx and dstatic hold those of the other direction: add
  BlobPointers<T> learned_grads{};  // null: not wanted; added to

  T* LearnedGrad(RecurrentBlob blob) const { return learned_grads[static_cast<size_t>(blob)]; }
};

// Rows of hidden states as they lie: `data` + row * stride.
template <typename T>
struct HiddenRows {
  const T* data = nullptr;
  int64_t stride = 0;
};

constexpr int64_t kCellGrain = 1 << 10;  // elements of a state that pay for a thread

// z (rows x width) = b + W_x x + W_static x_static: all steps in one product.
template <typename T>
void ProjectInput(const ForwardPass<T>& pass, int64_t width, T* z);

// z (streams x width) += h W_h^T, h is streams x hidden.
template <typename T>
void AddHiddenProduct(const ForwardPass<T>& pass, int64_t width, const T* h, T* z);

// dh = dz W_h, the way back from that.
template <typename T>
void HiddenProductBackward(const BackwardPass<T>& pass, int64_t width, const T* dz, T* dh);

// The way back from dz: dx, dstatic and the gradients of W_x, b and W_static.
template <typename T>
void ProjectInputBackward(const BackwardPass<T>& pass, int64_t width, const T* dz);

// out (streams x hidden) = the hidden state that the k-th step starts from: the one before, or the
// initial one, times the factors. A factor of 0 gives 0 whatever the state is.
template <typename T>
void LoadHidden(const SequencePass<T>& pass, int64_t k, const HiddenRows<T>& hidden, T* out);
// The same for all steps; out is rows x hidden, in the order of time of the data.
template <typename T>
void LoadAllHidden(const SequencePass<T>& pass, const HiddenRows<T>& hidden, T* out);

// grad (streams x hidden) *= the factors of the k-th step: from what a step started from to what
// the step before left.
template <typename T>
void ApplyFactors(const SequencePass<T>& pass, int64_t k, T* grad);

// Writes the state behind the last step: row block Time(steps - 1), or the initial state where
// there are no steps. Nothing where it is not wanted.
template <typename T>
void StoreFinal(const ForwardPass<T>& pass, size_t state, const HiddenRows<T>& rows);

// dst = src, or zeros where src is null.
template <typename T>
void CopyOrZero(const T* src, int64_t count, T* dst);

}  // namespace crema
