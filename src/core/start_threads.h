// Tests if threads can be started, for libraries that cannot report a failure.
#pragma once

namespace crema {

// Briefly starts `count` threads at the same time. Throws kOutOfMemory with the limits to check if
// one cannot be started. Other threads may use up the limit afterwards. Thread safety: any number
// of threads.
void RequireThreads(int count);

}  // namespace crema
