#include "core/parallel_for.h"

#include "core/start_threads.h"

namespace crema {

#ifdef _OPENMP
void RequireTeam(int workers) {
  thread_local int known = 1;
  const int team = std::min(workers, omp_get_thread_limit());
  if (team <= known || omp_in_parallel() != 0) return;
  // A team that shrank and grows again starts threads while the lost ones are still ending. This
  // thread's pool already has some.
  RequireThreads(2 * (team - 1) - (known - 1));
  known = team;
}
#else
void RequireTeam(int) {}
#endif

}  // namespace crema
