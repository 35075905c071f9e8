// Parallel loops and their threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace crema {

// Ensures that OpenMP can start a team of `workers` threads for the calling thread; otherwise
// OpenMP would end the process. Briefly starts up to twice as many, once per calling thread; later
// calls with the same number cost nothing. Throws kOutOfMemory with the limits to check. Thread
// safety: any number of threads.
void RequireTeam(int workers);

// Ends the threads that OpenMP keeps for the next team of the calling thread, which then starts new
// ones. Call it before a fork: otherwise the child would wait for threads that it does not have.
void EndIdleTeam();

// Returns the number of pieces that ParallelFor makes for these arguments.
inline int ParallelWorkers(int threads, int64_t count, int64_t grain) {
  const int64_t most = grain > 0 ? std::max<int64_t>(1, count / grain) : count;
  return static_cast<int>(std::clamp<int64_t>(most, 1, std::max(1, threads)));
}

// Calls body(begin, end, worker) on `workers` consecutive pieces of [0, count), each on its own
// thread. The partition depends on count, grain and threads only, so sums with one partial result
// per worker are reproducible. `grain` is the least number of elements worth a thread. Rethrows the
// first exception of a body. Throws like RequireTeam().
template <typename Body>
void ParallelFor(int threads, int64_t count, int64_t grain, Body&& body) {
  const int workers = ParallelWorkers(threads, count, grain);
  if (count <= 0) return;
  if (workers == 1) {
    body(int64_t{0}, count, 0);
    return;
  }
  RequireTeam(workers);
  std::exception_ptr failure;
  const auto run_piece = [&](int worker) {
    try {
      body(count * worker / workers, count * (worker + 1) / workers, worker);
    } catch (...) {
#ifdef _OPENMP
#pragma omp critical(crema_parallel_for)
#endif
      if (!failure) failure = std::current_exception();
    }
  };
#ifdef _OPENMP
#pragma omp parallel num_threads(workers)
  // A nested or refused team may be smaller than requested: each thread takes every n-th piece.
  for (int worker = omp_get_thread_num(); worker < workers; worker += omp_get_num_threads()) {
    run_piece(worker);
  }
#else
  for (int worker = 0; worker < workers; ++worker) run_piece(worker);
#endif
  if (failure) std::rethrow_exception(failure);
}

// For libraries that cannot report a failure: briefly starts `count` threads at the same time.
// Throws kOutOfMemory with the limits to check if one cannot be started. Other threads may use up
// the limit afterwards. Thread safety: any number of threads.
void RequireThreads(int count);

// Calls body(); within it, ParallelFor uses at most `most` threads for any number of pieces. The
// result depends on the pieces alone. Throws what the body throws. Requires: not nested.
template <typename Body>
void WithThreadLimit(int most, Body&& body) {
#ifdef _OPENMP
  std::exception_ptr failure;  // must not leave the construct
#pragma omp teams num_teams(1) thread_limit(most)
  {
    try {
      body();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
#else
  static_cast<void>(most);
  body();
#endif
}

}  // namespace crema
