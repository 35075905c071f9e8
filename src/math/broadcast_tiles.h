// Elementwise work and sums over a BroadcastMap on the CPU, in tiles of consecutive elements of the
// result: a loop over a tile reads contiguous memory for each operand, whether it is repeated or
// not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "core/bfloat16.h"
#include "core/parallel_for.h"
#include "math/broadcast_map.h"
#include "math/scratch.h"
#include "math/vectorize.h"

namespace crema {

inline constexpr int64_t kTileSize = 1024;      // elements: a few tiles fit into the fastest cache
inline constexpr int64_t kTileGrain = 1 << 14;  // elements that justify a thread
inline constexpr int64_t kLongRun = 64;         // elements of an axis that are worth a tile
inline constexpr int64_t kShortRun = 8;         // elements that are not worth a vectorised loop

// Calls body(at, count) for tiles that cover [begin, end). A tile does not cross the end of a long
// innermost axis, so that an operand that is whole along this axis need not be copied.
template <typename Body>
void ForEachTile(const BroadcastMap& map, int64_t begin, int64_t end, Body&& body) {
  const int64_t inner = map.inner();
  while (begin < end) {
    int64_t count = std::min(kTileSize, end - begin);
    if (inner >= kLongRun) count = std::min(count, inner - begin % inner);
    body(begin, count);
    begin += count;
  }
}

// Calls body(done, run, position) for the runs of [at, at + count) along the innermost axis: `run`
// elements from `at + done` on, the first at `position` of the operand.
template <typename Body>
void ForEachRun(const BroadcastMap& map, int operand, int64_t at, int64_t count, Body&& body) {
  const int last = map.size - 1;
  const int64_t length = map.inner(), step = last < 0 ? 0 : map.stride[operand][last];
  const int64_t rows = last < 1 ? 1 : map.length[last - 1];
  const int64_t next = last < 1 ? 0 : map.stride[operand][last - 1];
  int64_t within = at % length;
  int64_t row = at / length % rows;
  int64_t start = map.PositionOf(operand, at) - within * step;
  for (int64_t done = 0; done < count;) {
    const int64_t run = std::min(length - within, count - done);
    body(done, run, start + within * step);
    done += run;
    within = 0;
    start += next;
    if (++row < rows || done == count) continue;
    row = 0;
    start = map.PositionOf(operand, at + done);
  }
}

// Reads tiles of an operand. Thread safety: one thread.
template <typename T>
class TileReader {
 public:
  using Number = Compute<T>;

  // A null `x` is an operand that is not read.
  TileReader(const BroadcastMap& map, int operand, const T* x)
      : map_(map), operand_(operand), x_(x) {
    if (x == nullptr || map.count == 0) return;
    const int64_t* strides = map.stride[operand];
    const int outer = std::max(0, map.size - 1);
    if (std::any_of(strides, strides + outer, [](int64_t s) { return s != 0; })) return;
    if (map.size == 0 || strides[outer] == 0) {
      Repeat(x[0]);
    } else if (map.inner() < kLongRun) {
      period_ = map.inner();
      const int64_t count = std::min(kTileSize, map.count) + period_;
      for (int64_t i = 0; i < count; ++i) buffer_[i] = x[i % period_];
    }
  }
  // An operand whose elements are all `value`.
  TileReader(const BroadcastMap& map, Number value) : map_(map), operand_(0) { Repeat(value); }
  TileReader(const TileReader&) = delete;
  TileReader& operator=(const TileReader&) = delete;

  // Returns `count` elements, up to kTileSize, for those of the result from `at` on. They are valid
  // until the next call. Returns null if the operand is not read.
  const Number* Read(int64_t at, int64_t count) {
    if (period_ > 0) return buffer_ + at % period_;
    if (x_ == nullptr) return nullptr;
    const int64_t step = map_.stride[operand_][map_.size - 1];
    if constexpr (std::is_same_v<T, Number>) {
      const int64_t inner = map_.inner();
      if (step == 1 && at % inner + count <= inner) return x_ + map_.PositionOf(operand_, at);
    }
    ForEachRun(map_, operand_, at, count, [&](int64_t done, int64_t run, int64_t position) {
      const T* from = x_ + position;
      Number* to = buffer_ + done;
      if (run < kShortRun) {
        for (int64_t i = 0; i < run; ++i) to[i] = from[i * step];
      } else if (step == 0) {
        std::fill_n(to, run, Number{*from});
      } else {
        std::copy_n(from, run, to);
      }
    });
    return buffer_;
  }

 private:
  void Repeat(Number value) {
    period_ = 1;
    std::fill_n(buffer_, std::min(kTileSize, map_.count), value);
  }

  const BroadcastMap& map_;
  const int operand_;
  const T* x_ = nullptr;
  int64_t period_ = 0;  // buffer_ repeats these first elements; 0: it is filled for each tile
  alignas(64) Number buffer_[kTileSize + kLongRun];
};

// Writes tiles of the result. Thread safety: one thread.
template <typename T>
class TileWriter {
 public:
  // Calls fill(to) with the place of a tile, and stores its `count` elements at `y`.
  template <typename Fill>
  void Write(T* y, int64_t count, Fill&& fill) {
    if constexpr (std::is_same_v<T, Compute<T>>) {
      fill(y);
    } else {
      fill(buffer_);
      std::copy_n(buffer_, count, y);
    }
  }

 private:
  alignas(64) Compute<T> buffer_[std::is_same_v<T, Compute<T>> ? 1 : kTileSize];
};

// Division of the work of FoldTiles. It depends on the sizes alone, so the same bits come from any
// number of threads.
struct FoldParts {
  // `folded` is the number of elements of the operand.
  FoldParts(const BroadcastMap& map, int operand, int64_t folded) {
    constexpr int64_t kMostPieces = 64, kFew = 1024, kWorth = 16;
    if (folded <= kFew) {
      pieces =
          std::clamp<int64_t>(map.count / std::max(kTileGrain, kWorth * folded), 1, kMostPieces);
      return;
    }
    for (int a = 0; a < map.size; ++a) {
      if (map.stride[operand][a] != 0 && (axis < 0 || map.length[a] > map.length[axis])) axis = a;
    }
  }

  int64_t pieces = 1;  // of the result, each with its own states
  int axis = -1;       // of the operand, which threads divide; -1: they take pieces
};

// Returns the scratch bytes of FoldTiles.
template <typename State>
size_t FoldScratch(const BroadcastMap& map, int operand, int64_t folded) {
  return ScratchBytes<State>(folded * FoldParts(map, operand, folded).pieces) + kScratchSlack;
}

// Adds the elements [begin, end) of the result to the states of an operand; see FoldTiles.
template <typename Fold, typename Load>
void FoldRange(const BroadcastMap& map, int operand, const Fold& fold, Load& load, int64_t begin,
               int64_t end, typename Fold::State* states) {
  const bool each = map.size > 0 && map.stride[operand][map.size - 1] != 0;
  ForEachTile(map, begin, end, [&](int64_t at, int64_t count) {
    const auto* values = load(at, count);
    ForEachRun(map, operand, at, count, [&](int64_t done, int64_t run, int64_t position) {
      if (each) {
        fold.AddEach(states + position, values + done, run, at + done);
      } else {
        fold.AddRun(states + position, values + done, run, at + done);
      }
    });
  });
}

// Folds the elements of the result that each element of an operand is repeated to. A Fold has
//   State              small and trivially copyable
//   State Start()
//   void AddRun(State* state, const Number* values, int64_t count, int64_t at)
//   void AddEach(State* states, const Number* values, int64_t count, int64_t at)
//   void Join(State* state, const State& next)
// where `values` are those of the elements from `at` on: all for one state, or one for each. Each
// thread calls make_load() once and then load(at, count), which returns the values of a tile.
// Returns the states, one for each of the `folded` elements, which lie in `scratch`.
template <typename Fold, typename MakeLoad>
typename Fold::State* FoldTiles(int threads, const BroadcastMap& map, int operand, int64_t folded,
                                const Fold& fold, const MakeLoad& make_load,
                                std::span<std::byte> scratch) {
  using State = typename Fold::State;
  const FoldParts parts(map, operand, folded);
  State* states = ScratchCutter(scratch).Take<State>(folded * parts.pieces);
  ParallelFor(threads, folded * parts.pieces, kTileGrain, [&](int64_t begin, int64_t end, int) {
    std::fill(states + begin, states + end, fold.Start());
  });
  if (map.count == 0) return states;
  if (parts.axis >= 0) {
    int64_t outer = 1, inner = 1;
    const int64_t length = map.length[parts.axis];
    for (int a = 0; a < map.size; ++a) {
      if (a != parts.axis) (a < parts.axis ? outer : inner) *= map.length[a];
    }
    const int64_t grain = std::max<int64_t>(1, kTileGrain / (outer * inner));
    ParallelFor(threads, length, grain, [&](int64_t begin, int64_t end, int) {
      auto load = make_load();
      for (int64_t o = 0; o < outer; ++o) {
        FoldRange(map, operand, fold, load, (o * length + begin) * inner,
                  (o * length + end) * inner, states);
      }
    });
    return states;
  }
  ParallelFor(threads, parts.pieces, 1, [&](int64_t first, int64_t last, int) {
    auto load = make_load();
    for (int64_t p = first; p < last; ++p) {
      FoldRange(map, operand, fold, load, map.count * p / parts.pieces,
                map.count * (p + 1) / parts.pieces, states + p * folded);
    }
  });
  for (int64_t p = 1; p < parts.pieces; ++p) {
    for (int64_t k = 0; k < folded; ++k) fold.Join(states + k, states[p * folded + k]);
  }
  return states;
}

// Returns the sum in several accumulators, so that additions do not wait for each other. `count` is
// at most kTileSize.
template <typename T>
CREMA_MULTIVERSION T SumOfTile(const T* values, int64_t count) {
  constexpr int64_t kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] += values[i + k];
  }
  T sum = 0;
  for (; i < count; ++i) sum += values[i];
  for (T lane : lanes) sum += lane;
  return sum;
}

template <typename T>
CREMA_MULTIVERSION void AddToSums(double* sums, const T* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(values[i]);
}

// A fold for sums: in the type of the values within a tile, in double beyond.
template <typename T>
struct SumFold {
  using State = double;
  State Start() const { return 0; }
  void AddRun(State* sum, const T* values, int64_t count, int64_t) const {
    *sum += static_cast<double>(SumOfTile(values, count));
  }
  void AddEach(State* sums, const T* values, int64_t count, int64_t) const {
    AddToSums(sums, values, count);
  }
  void Join(State* sum, double next) const { *sum += next; }
};

// Sums values over the repetitions of an operand: the gradient `dx` of this operand, which has
// `folded` elements. See FoldTiles; `scratch` has FoldScratch<double> bytes.
template <typename T, typename MakeLoad>
void SumTiles(int threads, const BroadcastMap& map, int operand, int64_t folded,
              const MakeLoad& make_load, std::span<std::byte> scratch, T* dx) {
  const double* sums =
      FoldTiles(threads, map, operand, folded, SumFold<Compute<T>>{}, make_load, scratch);
  ParallelFor(threads, folded, kTileGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) dx[i] = static_cast<T>(sums[i]);
  });
}

}  // namespace crema
