// The threads that run one piece of a kernel together: a block or a warp on a GPU, one thread on
// the CPU.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace crema {

#ifdef __CUDACC__
// Returns the value of the thread whose index in the warp differs in the bits `mask`. Types of
// several numbers overload it.
template <typename T>
__device__ T OfLane(T value, int mask) {
  return __shfl_xor_sync(0xFFFFFFFF, value, mask);
}
#endif

// A body of ForTeams (launch.cuh) is called by all threads of a team with the same index. Outside
// the functions below they all do the same, so that plain variables have the same value in each;
// only bodies given to For may write to memory. Every thread must reach every call. Each thread
// sums a part, and the parts are added in a fixed order: the same on both devices.
class Team {
 public:
  static constexpr int kThreads = 256;
  static constexpr int kWarp = 32;

  // `threads` is kThreads, the block, or kWarp.
  CREMA_HOST_DEVICE explicit Team(int threads) : threads_(threads) {}

  // Calls body(i) for i = 0 .. count - 1. Afterwards all threads see what was written.
  template <typename Body>
  CREMA_HOST_DEVICE void For(int64_t count, const Body& body) const {
#ifdef __CUDA_ARCH__
    for (int64_t i = Own(); i < count; i += threads_) body(i);
    Synchronize();
#else
    for (int64_t i = 0; i < count; ++i) body(i);
#endif
  }

  // Returns kThreads floats that the threads share, the same in each call of a body. Requires a
  // block.
  CREMA_HOST_DEVICE float* Shared() const {
#ifdef __CUDA_ARCH__
    __shared__ float shared[kThreads];
    return shared;
#else
    return shared_;
#endif
  }

  // Returns the sum of term(i), in its type: float, double or an integer.
  template <typename Term>
  CREMA_HOST_DEVICE auto Sum(int64_t count, const Term& term) const {
    using T = decltype(term(int64_t{0}));
    return Reduce<T>(
        count, T{0}, [&](T sum, int64_t i) { return sum + term(i); },
        [](T a, T b) { return a + b; });
  }

  // Returns the largest value(i), or `least` if that is larger or count is 0.
  template <typename T, typename Value>
  CREMA_HOST_DEVICE T Max(int64_t count, T least, const Value& value) const {
    const auto larger = [](T a, T b) { return a > b ? a : b; };
    return Reduce<T>(
        count, least, [&](T most, int64_t i) { return larger(most, value(i)); }, larger);
  }

  // Returns the first i with the largest value(i); -1 if there is none. A NaN is never the largest.
  template <typename Value>
  CREMA_HOST_DEVICE int64_t ArgMax(int64_t count, const Value& value) const {
    const auto better = [&](int64_t a, int64_t b) {
      if (a < 0 || b < 0) return a < 0 ? b : a;
      const auto x = value(a), y = value(b);
      if (x == y) return a < b ? a : b;
      return x > y ? a : b;
    };
    const auto step = [&](int64_t best, int64_t i) {
      return value(i) == value(i) ? better(best, i) : best;
    };
    return Reduce<int64_t>(count, int64_t{-1}, step, better);
  }

  // part = step(part, i) over the elements of each thread, from `start`; then join(part, part).
  template <typename T, typename Step, typename Join>
  CREMA_HOST_DEVICE T Reduce(int64_t count, T start, const Step& step, const Join& join) const {
#ifdef __CUDA_ARCH__
    T part = start;
    for (int64_t i = Own(); i < count; i += threads_) part = step(part, i);
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      part = join(part, OfLane(part, offset));
    }
    if (threads_ == kWarp) return part;
    __shared__ T warps[kThreads / kWarp];
    if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = part;
    __syncthreads();
    T whole = warps[0];
    for (int w = 1; w < kThreads / kWarp; ++w) whole = join(whole, warps[w]);
    __syncthreads();  // before the next reduction writes to `warps`
    return whole;
#else
    T parts[kThreads];
    for (int t = 0; t < threads_; ++t) {
      parts[t] = start;
      for (int64_t i = t; i < count; i += threads_) parts[t] = step(parts[t], i);
    }
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      for (int t = 0; t < threads_; ++t) {
        if (t % kWarp < offset) parts[t] = join(parts[t], parts[t + offset]);
      }
    }
    for (int t = kWarp; t < threads_; t += kWarp) parts[0] = join(parts[0], parts[t]);
    return parts[0];
#endif
  }

 private:
#ifdef __CUDA_ARCH__
  __device__ int Own() const { return static_cast<int>(threadIdx.x) % threads_; }
  __device__ void Synchronize() const { threads_ == kWarp ? __syncwarp() : __syncthreads(); }
#endif
  int threads_;
#ifndef __CUDA_ARCH__  // teams are created where they run and never passed on
  mutable float shared_[kThreads];
#endif
};

// A single thread with the interface of a Team.
struct OneThread {
  template <typename Body>
  CREMA_HOST_DEVICE void For(int64_t count, const Body& body) const {
    for (int64_t i = 0; i < count; ++i) body(i);
  }
  template <typename Term>
  CREMA_HOST_DEVICE auto Sum(int64_t count, const Term& term) const {
    decltype(term(int64_t{0})) sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += term(i);
    return sum;
  }
  template <typename T, typename Value>
  CREMA_HOST_DEVICE T Max(int64_t count, T least, const Value& value) const {
    for (int64_t i = 0; i < count; ++i) {
      const T next = value(i);
      least = least > next ? least : next;
    }
    return least;
  }
};

}  // namespace crema
