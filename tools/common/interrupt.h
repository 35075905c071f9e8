// Ctrl-C for commands that leave whole files behind.
#pragma once

namespace crema::tools {

// From here on the first SIGINT or SIGTERM is a request that Interrupted() tells of; the second
// ends the command at once. Before, and without this call, the first does.
void CatchInterrupt();

// Any thread.
bool Interrupted();

// Ends the process at once as the default action of the signal does, also where it is PID 1; no
// stream is flushed. May be called by signal handlers.
[[noreturn]] void EndBySignal(int signal);

// Linux drops signals without a handler that are sent to PID 1 (of a container): from here on
// SIGINT, SIGTERM and SIGHUP end that process too. Does nothing in others.
void HearSignalsAsPid1();

}  // namespace crema::tools
