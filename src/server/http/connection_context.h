// For connection.h.
#pragma once

#include <atomic>
#include <cstddef>

#include "server/http/byte_budget.h"
#include "server/http/http_server.h"
#include "server/http/idle_list.h"
#include "server/http/message.h"

namespace crema::server {

// What all connections of a server share.
struct ConnectionContext {
  ConnectionContext(const HttpOptions& http_options, HttpHandler& http_handler)
      : options(http_options),
        handler(http_handler),
        buffered(http_options.limits.buffered_bytes) {}

  const HttpOptions& options;
  HttpHandler& handler;
  ByteBudget buffered;
  IdleList idle;
  std::atomic<size_t> open{0};
  std::atomic<int> busy{0};  // connections with a request, or an answer that may not be taken yet
  std::atomic<bool> draining{false};
};

}  // namespace crema::server
