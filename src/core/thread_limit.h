// Fewer threads than a computation was cut for.
#pragma once

#include <exception>

namespace crema {

// Calls body(); ParallelFor within it uses `most` threads of the machine, however many pieces it
// makes: what is computed depends on the pieces alone. Throws what the body throws. Requires: not
// called from within itself.
template <typename Body>
void WithThreadLimit(int most, Body&& body) {
#ifdef _OPENMP
  std::exception_ptr failure;  // may not leave the construct
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
