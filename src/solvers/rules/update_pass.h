// The common part of all update rules: one pass over the parameters of a net.
//
// A rule is a Step<T> (steps.h).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "core/parallel_for.h"
#include "math/vectorize.h"
#include "solvers/rules/gradient.h"
#include "solvers/update_rule.h"

namespace crema {

// Some elements of one blob.
template <typename T, size_t kHistories>
struct Piece {
  T* weights;
  const T* gradient;
  std::array<T*, kHistories> history;
  int64_t count;
  T scale;
  T limit;
  T decay;  // 0 if the rule decouples it
  bool l1;
};

template <typename T>
using BitsOf = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// The bits of x without its sign are ordered like |x|; those of NaN are above those of infinity.
template <typename T>
inline BitsOf<T> SizeBits(T x) {
  return std::bit_cast<BitsOf<T>>(x) & std::numeric_limits<BitsOf<T>>::max();
}

template <bool kL1, typename Step, typename T, size_t kHistories>
[[gnu::always_inline]] inline bool RunLoop(const Step& shared_step,
                                           const Piece<T, kHistories>& shared_piece) {
  static_assert(kHistories == 1 || kHistories == 2);
  const Step step = shared_step;  // copies: no store in the loop can change them
  const Piece<T, kHistories> p = shared_piece;
  T* const first = p.history[0];
  T* const second = p.history[kHistories - 1];
  BitsOf<T> largest = 0;
#pragma GCC ivdep  // a missing gradient is read from the weights (see PieceOf): same index, no harm
  for (int64_t i = 0; i < p.count; ++i) {
    const T w = p.weights[i];
    const T g = Clamp(p.scale * p.gradient[i], p.limit) + p.decay * (kL1 ? Sign(w) : w);
    T h = first[i];
    T next;
    if constexpr (kHistories == 2) {
      T k = second[i];
      next = step(w, g, h, k);
      second[i] = k;
      largest = std::max(largest, SizeBits(k));
    } else {
      next = step(w, g, h);
    }
    first[i] = h;
    p.weights[i] = next;
    largest = std::max(largest, std::max(SizeBits(h), SizeBits(next)));
  }
  return largest < SizeBits(std::numeric_limits<T>::infinity());
}

// Updates a piece; returns false if a weight or history is not finite then.
template <template <typename> typename Step, size_t kHistories>
CREMA_MULTIVERSION bool RunPiece(const Step<float>& step, const Piece<float, kHistories>& piece) {
  return piece.l1 ? RunLoop<true>(step, piece) : RunLoop<false>(step, piece);
}
template <template <typename> typename Step, size_t kHistories>
bool RunPiece(const Step<double>& step, const Piece<double, kHistories>& piece) {
  return piece.l1 ? RunLoop<true>(step, piece) : RunLoop<false>(step, piece);
}

// Returns elements [begin, end) of a blob. A missing gradient becomes 0 * w, which is zero.
template <typename T, size_t kHistories>
Piece<T, kHistories> PieceOf(const UpdateArgs& args, const BlobUpdate& blob, double decay,
                             int64_t begin, int64_t end) {
  T* const weights = blob.weights.data<T>() + begin;
  const bool has_gradient = !blob.gradient.empty();
  Piece<T, kHistories> piece{.weights = weights,
                             .gradient = has_gradient ? blob.gradient.data<T>() + begin : weights,
                             .history = {},
                             .count = end - begin,
                             .scale = static_cast<T>(has_gradient ? args.gradient_scale : 0),
                             .limit = static_cast<T>(args.gradient_limit),
                             .decay = static_cast<T>(decay),
                             .l1 = args.regularization == Regularization::kL1};
  for (size_t h = 0; h < kHistories; ++h) {
    piece.history[h] = blob.history[h].template data<T>() + begin;
  }
  return piece;
}

// Calls body(blob, begin, end) for pieces that together cover all elements of all blobs, split
// evenly over threads as if the blobs were contiguous.
template <typename Body>
void ForEachPiece(int threads, std::span<const BlobUpdate> blobs, const Body& body) {
  constexpr int64_t kGrain = 1 << 15;
  int64_t total = 0;
  for (const BlobUpdate& blob : blobs) total += blob.weights.count();
  ParallelFor(threads, total, kGrain, [&](int64_t begin, int64_t end, int) {
    int64_t start = 0;  // of the blob, in the concatenation of all
    for (size_t b = 0; b < blobs.size() && start < end; ++b) {
      const int64_t count = blobs[b].weights.count();
      const int64_t first = std::max(begin - start, int64_t{0});
      const int64_t last = std::min(end - start, count);
      if (first < last) body(b, first, last);
      start += count;
    }
  });
}

inline void LowerTo(std::atomic<int64_t>* least, int64_t value) {
  int64_t seen = least->load();
  while (value < seen && !least->compare_exchange_weak(seen, value)) {
  }
}

// UpdateRule::apply for one element type. step_of(index of the blob) returns the Step of a blob.
template <typename Step, typename T, typename StepOf>
int64_t UpdateBlobs(const UpdateArgs& args, const StepOf& step_of) {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> broken = kNone;
  ForEachPiece(args.context.threads(), args.blobs, [&](size_t b, int64_t begin, int64_t end) {
    const BlobUpdate& blob = args.blobs[b];
    const double decay = Step::kDecay == Decay::kInGradient ? blob.decay : 0;
    if (!RunPiece(step_of(b), PieceOf<T, Step::kHistories>(args, blob, decay, begin, end))) {
      LowerTo(&broken, static_cast<int64_t>(b));
    }
  });
  return broken == kNone ? -1 : broken.load();
}

// Does the same for a rule whose steps depend on the arguments and the blob alone.
template <template <typename> typename Step>
int64_t UpdateByStep(const UpdateArgs& args) {
  if (args.blobs.empty()) return -1;
  return DispatchFloat(args.blobs[0].weights.dtype(), [&]<typename T>(T) {
    return UpdateBlobs<Step<T>, T>(args, [&](size_t b) { return Step<T>(args, args.blobs[b]); });
  });
}

}  // namespace crema
