#include "core/parallel_for.h"

#include "core/start_threads.h"

namespace crema {

#ifdef _OPENMP
void RequireTeam(int workers) {
  thread_local int known = 1;
  const int team = std::min(workers, omp_get_thread_limit());
  if (team <= known || omp_in_parallel() != 0) return;
  RequireThreads(team - known);  // the pool of this thread has the others
  known = team;
}
#else
void RequireTeam(int) {}
#endif

}  // namespace crema
