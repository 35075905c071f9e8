// Element types and launches, for all GPU code. A kernel is a body, given as
//   [=] CREMA_HOST_DEVICE(int64_t i) { ... }
// by a function template or function at namespace scope (nvcc takes no such lambda inside a generic
// lambda or a private method). The same body runs on a GPU and, for tests, on the CPU
// (emulation.h); without nvcc these files are plain C++. Functions in headers with such lambdas are
// static: nvcc identifies the host code of a lambda by its enclosing function, per file.
#pragma once

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#endif

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/bfloat16.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/host_device.h"
#include "math/cuda/check.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/team.h"

namespace crema {

inline bool IsCudaFloat(DType dtype) {
#ifdef __CUDACC__
  if (dtype == DType::kF16) return true;
#endif
  return dtype == DType::kF32 || dtype == DType::kBF16;
}

// Calls body(T{}) with T = float, __half or __nv_bfloat16; without nvcc, with float or the CPU's
// bfloat16.
template <typename Body>
void DispatchCudaFloat(DType dtype, const Body& body) {
  CREMA_CHECK(IsCudaFloat(dtype));
#ifdef __CUDACC__
  if (dtype == DType::kF16) return body(__half{});
  if (dtype == DType::kBF16) return body(__nv_bfloat16{});
#else
  if (dtype == DType::kBF16) return body(BFloat16{});
#endif
  body(float{});
}

// Half types are computed as floats.
template <typename T>
CREMA_HOST_DEVICE inline float ToFloat(T value) {
  return static_cast<float>(value);
}
template <typename T>
CREMA_HOST_DEVICE inline T FromFloat(float value) {
  return static_cast<T>(value);
}

// Returns a / b of non-negative numbers; if they fit 32 bits, as usual, several times as fast on a
// GPU.
CREMA_HOST_DEVICE inline int64_t Quotient(int64_t a, int64_t b) {
  if ((static_cast<uint64_t>(a) | static_cast<uint64_t>(b)) >> 32 == 0) {
    return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  }
  return a / b;
}

#ifdef __CUDACC__
constexpr int64_t kMaxBlocks = 1 << 16;  // a thread takes several elements beyond that

template <typename Body>
__global__ void __launch_bounds__(Team::kThreads) RunElements(int64_t count, const Body body) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * Team::kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * Team::kThreads + threadIdx.x; i < count;
       i += step) {
    body(i);
  }
}

template <int kTeam, typename Body>
__global__ void __launch_bounds__(Team::kThreads) RunTeams(int64_t teams, const Body body) {
  constexpr int kTeams = Team::kThreads / kTeam;  // of a block
  const int64_t step = static_cast<int64_t>(gridDim.x) * kTeams;
  for (int64_t index = static_cast<int64_t>(blockIdx.x) * kTeams + threadIdx.x / kTeam;
       index < teams; index += step) {
    body(Team(kTeam), index);
  }
}
#endif

// Queues body(i) for i = 0 .. count - 1, in any order, one thread each. `name` is for errors.
template <typename Body>
void ForElements(const CudaQueue& queue, [[maybe_unused]] std::string_view name, int64_t count,
                 const Body& body) {
  if (count == 0) return;  // an empty launch would be an error
  if (queue.emulated()) {
    const auto run = [count](const Body& body_of) {
      for (int64_t i = 0; i < count; ++i) body_of(i);
    };
    if (!queue.CapturesWork(name)) return run(body);
    return queue.CaptureWork([=] { run(body); });
  }
#ifdef __CUDACC__
  const int64_t blocks = std::min(kMaxBlocks, (count + Team::kThreads - 1) / Team::kThreads);
  RunElements<<<static_cast<unsigned>(blocks), Team::kThreads, 0, queue.stream()>>>(count, body);
  CheckLaunch(name);
#endif
}

// The elements that a thread reads before it writes the first: with one at a time, too few reads
// are in flight to use the memory's rate.
inline constexpr int kReadAhead = 8;

// Returns the number of threads that take kReadAhead elements each: a multiple of `unit`.
inline int64_t ThreadsAhead(int64_t count, int64_t unit) {
  const int64_t elements = kReadAhead * unit;
  return (count + elements - 1) / elements * unit;
}

// Reads and then writes the elements t, t + step, ... before `count`; fewer than kReadAhead + 1.
template <typename Own>
CREMA_HOST_DEVICE void TakeAhead(int64_t t, int64_t step, int64_t count, const Own& own) {
  decltype(own.Read(t)) read[kReadAhead];
  if (t + (kReadAhead - 1) * step < count) {  // all, as most threads: without comparisons
    for (int k = 0; k < kReadAhead; ++k) read[k] = own.Read(t + k * step);
    for (int k = 0; k < kReadAhead; ++k) own.Write(t + k * step, read[k]);
    return;
  }
  for (int64_t i = t; i < count; i += step) own.Write(i, own.Read(i));
}

template <typename T, typename Value>
struct ElementSetter {
  CREMA_HOST_DEVICE float Read(int64_t i) const { return value(i); }
  CREMA_HOST_DEVICE void Write(int64_t i, float result) const { y[i] = FromFloat<T>(result); }
  Value value;
  T* y;
};

// Queues own.Write(i, own.Read(i)) for i = 0 .. count - 1, reading ahead: `own` may read what it
// writes for i, but for no other element.
template <typename Own>
void ForElementsAhead(const CudaQueue& queue, std::string_view name, int64_t count,
                      const Own& own) {
  const int64_t step = ThreadsAhead(count, Team::kThreads);
  ForElements(queue, name, std::min(step, count),
              [=] CREMA_HOST_DEVICE(int64_t t) { TakeAhead(t, step, count, own); });
}

// Queues y[i] = value(i) for i = 0 .. count - 1. `value` returns float and may read y[i] and other
// memory, but no other element of y.
template <typename T, typename Value>
void SetElements(const CudaQueue& queue, std::string_view name, int64_t count, T* y,
                 const Value& value) {
  ForElementsAhead(queue, name, count, ElementSetter<T, Value>{value, y});
}

// Queues body(team, i) for i = 0 .. teams - 1, in any order, one team each: of kTeam threads.
template <int kTeam = Team::kThreads, typename Body>
void ForTeams(const CudaQueue& queue, [[maybe_unused]] std::string_view name, int64_t teams,
              const Body& body) {
  if (teams == 0) return;
  if (queue.emulated()) {
    const auto run = [teams](const Body& body_of) {
      for (int64_t i = 0; i < teams; ++i) body_of(Team(kTeam), i);
    };
    if (!queue.CapturesWork(name)) return run(body);
    return queue.CaptureWork([=] { run(body); });
  }
#ifdef __CUDACC__
  constexpr int64_t kTeams = Team::kThreads / kTeam;  // of a block
  const int64_t blocks = std::min(kMaxBlocks, (teams + kTeams - 1) / kTeams);
  RunTeams<kTeam>
      <<<static_cast<unsigned>(blocks), Team::kThreads, 0, queue.stream()>>>(teams, body);
  CheckLaunch(name);
#endif
}

// As ForTeams, for teams that have `size` elements each: if many teams have few, each is a warp,
// which needs no barriers of a block. Their bodies may not use Team::Shared.
template <typename Body>
void ForTeamsOf(const CudaQueue& queue, std::string_view name, int64_t teams, int64_t size,
                const Body& body) {
  constexpr int64_t kFew = 1024, kMany = 1024;
  if (size <= kFew && teams >= kMany) return ForTeams<Team::kWarp>(queue, name, teams, body);
  ForTeams(queue, name, teams, body);
}

}  // namespace crema
