// One update rule on hand-written blobs.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "solvers/update_rule.h"

namespace crema::test {

// Fields of a solver, without what only a whole solver needs.
inline SolverParameter SolverFields(const std::string& text) {
  return ParseSolver("display: 0 " + text, "solver.prototxt").solver;
}

template <typename T>
struct UpdateBlob {
  std::vector<T> weights;
  std::vector<T> gradient;  // empty: none
  std::vector<std::vector<T>> history;
  double rate = 0.1;
  double decay = 0;
};

// Calls `rule` on the blobs, which it changes.
template <typename T>
int64_t Update(const UpdateRule& rule, const SolverParameter& param, int threads,
               std::vector<UpdateBlob<T>>* blobs, int64_t iteration, double scale = 1,
               double limit = std::numeric_limits<double>::infinity()) {
  constexpr DType kType = DTypeOf<T>::value;
  std::vector<std::vector<TensorView>> histories(blobs->size());
  std::vector<BlobUpdate> updates;
  for (size_t b = 0; b < blobs->size(); ++b) {
    UpdateBlob<T>& blob = (*blobs)[b];
    const Shape shape = {std::ssize(blob.weights)};
    for (auto& h : blob.history) histories[b].push_back({h.data(), shape, kType});
    BlobUpdate update{.weights = {blob.weights.data(), shape, kType},
                      .gradient = {},
                      .history = histories[b],
                      .rate = blob.rate,
                      .decay = blob.decay};
    if (!blob.gradient.empty()) update.gradient = {blob.gradient.data(), shape, kType};
    updates.push_back(update);
  }
  const ExecContext context(threads);
  return rule.apply({.context = context,
                     .param = param,
                     .iteration = iteration,
                     .blobs = updates,
                     .gradient_scale = scale,
                     .gradient_limit = limit,
                     .momentum = MomentumAt(rule, param, iteration),
                     .regularization = param.regularization_type() == "L1" ? Regularization::kL1
                                                                           : Regularization::kL2});
}

// Values in -1..1, drawn from (seed, index).
template <typename T>
std::vector<T> RandomValues(size_t count, uint64_t seed) {
  const RandomStream random(seed, 7);
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(2.0 * static_cast<double>(random.Below(i, 1 << 24)) / (1 << 24) - 1);
  }
  return values;
}

template <typename T>
UpdateBlob<T> RandomBlob(const UpdateRule& rule, size_t count, uint64_t seed) {
  UpdateBlob<T> blob;
  blob.weights = RandomValues<T>(count, seed);
  blob.gradient = RandomValues<T>(count, seed + 1000);
  blob.history.assign(static_cast<size_t>(rule.histories), std::vector<T>(count));
  return blob;
}

}  // namespace crema::test
