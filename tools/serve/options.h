// Flags of `serve`.
#pragma once

#include <chrono>

#include "server/server.h"

namespace crema::tools {

struct ServeOptions {
  server::ServerOptions server;
  server::BatcherOptions batching;
  std::chrono::milliseconds exit_timeout{30000};
};

// Throws kInvalidArgument for invalid or conflicting flags. Warns about unsafe ones.
ServeOptions ServeOptionsOfFlags();

// Loads the models of the flags and logs the addresses. Throws what loading throws.
void StartServing(const ServeOptions& options, server::Server* server);

}  // namespace crema::tools
