// Threads that a library is about to start, which could not say that the system refuses them.
#pragma once

namespace crema {

// Starts `count` threads at the same time, for a moment. Throws kOutOfMemory with the limits to
// look at when the system refuses one. Other threads may take the room before the caller does.
// Thread safety: any number of threads.
void RequireThreads(int count);

}  // namespace crema
