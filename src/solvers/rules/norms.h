// Norms of parameters and their gradients. Sums are computed over blocks of a fixed size, and added
// in order: the same bits for any number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/parallel_for.h"
#include "core/tensor.h"
#include "solvers/rules/update_pass.h"

namespace crema {

// body(blob, begin, end) returns kSums sums over elements of a blob; the result has the sums of
// each whole blob. Bodies run on several threads.
template <size_t kSums, typename Body>
std::vector<std::array<double, kSums>> SumByBlob(int threads, std::span<const int64_t> counts,
                                                 const Body& body) {
  constexpr int64_t kBlock = 1 << 14;
  struct Block {
    size_t blob;
    int64_t begin;
    int64_t end;
    std::array<double, kSums> sums;
  };
  std::vector<Block> blocks;
  for (size_t b = 0; b < counts.size(); ++b) {
    for (int64_t at = 0; at < counts[b]; at += kBlock) {
      blocks.push_back({b, at, std::min(at + kBlock, counts[b]), {}});
    }
  }
  ParallelFor(threads, static_cast<int64_t>(blocks.size()), 2,
              [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; ++i) {
                  Block& block = blocks[static_cast<size_t>(i)];
                  block.sums = body(block.blob, block.begin, block.end);
                }
              });
  std::vector<std::array<double, kSums>> sums(counts.size());
  for (const Block& block : blocks) {
    for (size_t k = 0; k < kSums; ++k) sums[block.blob][k] += block.sums[k];
  }
  return sums;
}

// Returns the sum of clamp(scale * x, +-limit)^2. Must be inlined into a multiversioned function.
template <typename T>
[[gnu::always_inline]] inline double RunSumOfSquares(const T* x, int64_t count, T scale, T limit) {
  constexpr int64_t kLanes = 16;
  std::array<double, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const double value = Clamp(scale * x[i + l], limit);
      lanes[static_cast<size_t>(l)] += value * value;
    }
  }
  double sum = 0;
  for (; i < count; ++i) {
    const double value = Clamp(scale * x[i], limit);
    sum += value * value;
  }
  for (double lane : lanes) sum += lane;
  return sum;
}
double SumOfSquares(std::span<const float> x, double scale = 1,
                    double limit = std::numeric_limits<double>::infinity());
double SumOfSquares(std::span<const double> x, double scale = 1,
                    double limit = std::numeric_limits<double>::infinity());

// Returns the L2 norm of all elements of all blobs.
double NormOf(int threads, std::span<const ConstTensorView> blobs);

}  // namespace crema
