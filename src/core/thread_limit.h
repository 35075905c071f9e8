// Runs a computation on fewer threads than it was partitioned for.
#pragma once

#include <exception>

namespace crema {

// Calls body(); within it, ParallelFor uses at most `most` threads, whatever the number of pieces.
// The result depends on the pieces alone. Throws what the body throws. Requires: not nested.
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
