// Ctrl-C for commands whose output must stay consistent.
#pragma once

#include <functional>

namespace crema::tools {

// From here on, the first SIGINT or SIGTERM sets Interrupted(), and the second ends the command at
// once. Without this call, the first one does.
void CatchInterrupt();

// Thread safety: any thread.
bool Interrupted();

// Ends the process at once like the signal's default action, also as PID 1. Does not flush streams.
// Async-signal-safe.
[[noreturn]] void EndBySignal(int signal);

// Calls `work` after CatchInterrupt(). If `work` ends by the exception of EndIfInterrupted, the
// process ends by the signal then, after the destructors, which remove temporary files.
int WithoutLeftovers(const std::function<int()>& work);
// Requires: in `work`.
void EndIfInterrupted();

// Linux ignores signals without a handler for PID 1 (of a container). From here on, SIGINT, SIGTERM
// and SIGHUP end that process, too. Does nothing in other processes.
void HandleSignalsAsPid1();

}  // namespace crema::tools
