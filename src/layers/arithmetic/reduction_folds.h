// The folds of Reduction on the CPU (math/broadcast_tiles.h).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "math/fast_exp.h"
#include "math/vectorize.h"

namespace crema {

// The terms of sums.
struct ValueTerm {
  double operator()(double v) const { return v; }
};
struct MagnitudeTerm {
  double operator()(double v) const { return std::abs(v); }
};
struct SquareTerm {
  double operator()(double v) const { return v * v; }
};

template <typename Term, typename T>
CREMA_MULTIVERSION double SumOfTerms(const T* x, int64_t count) {
  constexpr int64_t kLanes = 8;  // running sums, so that an addition need not wait for the previous
  const Term term;
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] += term(static_cast<double>(x[i + k]));
  }
  for (; i < count; ++i) lanes[0] += term(static_cast<double>(x[i]));
  return std::accumulate(lanes, lanes + kLanes, 0.0);
}

template <typename Term, typename T>
CREMA_MULTIVERSION void AddTerms(double* sums, const T* x, int64_t count) {
  const Term term;
  for (int64_t i = 0; i < count; ++i) sums[i] += term(static_cast<double>(x[i]));
}

template <typename T, typename Term>
struct TermFold {
  using State = double;
  State Start() const { return 0; }
  void AddRun(State* sum, const T* x, int64_t count, int64_t) const {
    *sum += SumOfTerms<Term>(x, count);
  }
  void AddEach(State* sums, const T* x, int64_t count, int64_t) const {
    AddTerms<Term>(sums, x, count);
  }
  void Join(State* sum, double next) const { *sum += next; }
};

// The product of the elements other than 0, and the number of zeros.
struct ProductState {
  double product;
  int64_t zeros;
};

template <typename T>
struct ProductFold {
  using State = ProductState;
  State Start() const { return {1, 0}; }
  void AddRun(State* state, const T* x, int64_t count, int64_t) const {
    for (int64_t i = 0; i < count; ++i) Multiply(state, static_cast<double>(x[i]));
  }
  void AddEach(State* states, const T* x, int64_t count, int64_t) const {
    for (int64_t i = 0; i < count; ++i) Multiply(states + i, static_cast<double>(x[i]));
  }
  void Join(State* state, const State& next) const {
    state->product *= next.product;
    state->zeros += next.zeros;
  }

 private:
  static void Multiply(State* state, double x) {
    state->product *= x == 0 ? 1 : x;
    state->zeros += x == 0 ? 1 : 0;
  }
};

// The best element and its position in the input; NaN is better than any other. -1: no element.
struct BestState {
  double value;
  int64_t at;
};

// Returns the best element; NaN elements are not chosen but set `nan`.
template <bool kMax, typename T>
CREMA_MULTIVERSION T BestOf(const T* x, int64_t count, bool* nan) {
  constexpr int64_t kLanes = 16;
  constexpr T kWorst =
      kMax ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::infinity();
  T lanes[kLanes];
  int odd[kLanes] = {};
  for (T& lane : lanes) lane = kWorst;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) {
      const T v = x[i + k];
      lanes[k] = (kMax ? v > lanes[k] : v < lanes[k]) ? v : lanes[k];
      odd[k] |= v != v;
    }
  }
  for (; i < count; ++i) {
    lanes[0] = (kMax ? x[i] > lanes[0] : x[i] < lanes[0]) ? x[i] : lanes[0];
    odd[0] |= x[i] != x[i];
  }
  for (int64_t k = 1; k < kLanes; ++k) {
    lanes[0] = (kMax ? lanes[k] > lanes[0] : lanes[k] < lanes[0]) ? lanes[k] : lanes[0];
    odd[0] |= odd[k];
  }
  *nan = odd[0] != 0;
  return lanes[0];
}

template <typename T, bool kMax>
struct BestFold {
  using State = BestState;
  State Start() const {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return {kMax ? -kInfinity : kInfinity, -1};
  }
  void AddRun(State* state, const T* x, int64_t count, int64_t at) const {
    bool nan = false;
    const T best = BestOf<kMax>(x, count, &nan);
    if (!nan && !IsBetter(static_cast<double>(best), *state)) return;
    for (int64_t i = 0; i < count; ++i) {
      if (nan ? x[i] == x[i] : x[i] != best) continue;
      return Take(state, static_cast<double>(x[i]), at + i);
    }
  }
  void AddEach(State* states, const T* x, int64_t count, int64_t at) const {
    for (int64_t i = 0; i < count; ++i) Take(states + i, static_cast<double>(x[i]), at + i);
  }
  // The elements of `next` come after those of `state`.
  void Join(State* state, const State& next) const {
    if (next.at >= 0) Take(state, next.value, next.at);
  }

 private:
  static bool IsBetter(double value, const State& state) {
    if (state.at < 0) return true;
    if (std::isnan(state.value)) return false;
    return std::isnan(value) || (kMax ? value > state.value : value < state.value);
  }
  static void Take(State* state, double value, int64_t at) {
    if (IsBetter(value, *state)) *state = {value, at};
  }
};

// A sum of exponentials: exp(most) * sum.
struct ExpState {
  double most;
  double sum;
};

template <typename T>
CREMA_MULTIVERSION T SumOfExponentials(const T* x, T most, int64_t count) {
  constexpr int64_t kLanes = 16;
  T lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t k = 0; k < kLanes; ++k) lanes[k] += FastExp(x[i + k] - most);
  }
  T sum = 0;
  for (; i < count; ++i) sum += FastExp(x[i] - most);
  for (T lane : lanes) sum += lane;
  return sum;
}

template <typename T>
struct ExpFold {
  using State = ExpState;
  State Start() const { return {-std::numeric_limits<double>::infinity(), 0}; }
  void AddRun(State* state, const T* x, int64_t count, int64_t) const {
    bool nan = false;
    const T most = BestOf<true>(x, count, &nan);
    if (nan || !std::isfinite(most)) {
      for (int64_t i = 0; i < count; ++i) Join(state, {static_cast<double>(x[i]), 1});
    } else {
      Join(state,
           {static_cast<double>(most), static_cast<double>(SumOfExponentials(x, most, count))});
    }
  }
  void AddEach(State* states, const T* x, int64_t count, int64_t) const {
    for (int64_t i = 0; i < count; ++i) Join(states + i, {static_cast<double>(x[i]), 1});
  }
  void Join(State* state, const State& next) const {
    // Differences of equal infinities are NaN.
    if (next.most == state->most) {
      state->sum += next.sum;
    } else if (next.most > state->most) {
      *state = {next.most, next.sum + state->sum * std::exp(state->most - next.most)};
    } else {
      state->sum += next.sum * std::exp(next.most - state->most);  // also for NaN
    }
  }
};

inline double LogOf(const ExpState& state) { return state.most + std::log(state.sum); }

}  // namespace crema
