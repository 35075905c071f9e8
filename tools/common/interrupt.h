// Ctrl-C for commands that leave whole files behind.
#pragma once

namespace crema::tools {

// From here on the first SIGINT or SIGTERM is a request that Interrupted() tells of; the second
// ends the command at once. Before, and without this call, the first does.
void CatchInterrupt();

// Any thread.
bool Interrupted();

}  // namespace crema::tools
