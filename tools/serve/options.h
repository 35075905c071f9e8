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

// Throws kInvalidArgument for flags that make no sense, or not together. Warns of what is unsafe.
ServeOptions ServeOptionsOfFlags();

// Loads what the flags name, and logs where it answers. Throws what that throws.
void StartServing(const ServeOptions& options, server::Server* server);

}  // namespace crema::tools
