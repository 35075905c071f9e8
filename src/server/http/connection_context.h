// For connection.h.
#pragma once

#include <atomic>
#include <cstddef>

#include "server/http/byte_budget.h"
#include "server/http/http_server.h"
#include "server/http/idle_list.h"
#include "server/http/local_requests.h"
#include "server/http/message.h"
#include "server/http/routes.h"

namespace crema::server {

// State shared by all connections of a server.
struct ConnectionContext {
  ConnectionContext(const HttpOptions& http_options, HttpHandler& http_handler)
      : options(http_options),
        handler(http_handler),
        buffered(http_options.limits.buffered_bytes) {}

  // Throws RequestError for a head that is refused independent of the handler.
  void Check(const HttpHead& head, bool guest) const {
    if (options.only_local_pages) RefuseForeignPages(head);
    if (guest && !AsksForHealth(head.method, head.path)) {
      Refuse(Cause::kUnavailable, "too many connections are open");
    }
  }

  const HttpOptions& options;
  HttpHandler& handler;
  ByteBudget buffered;
  IdleList waiting;         // connections without a complete head
  IdleList guests_waiting;  // the same for guests
  std::atomic<size_t> open{0};
  // Guests: connections above the limit, which may only ask for health
  std::atomic<size_t> guests{0};
  std::atomic<int> busy{0};  // connections with a request, or with an answer that may be incomplete
  std::atomic<bool> draining{false};
};

}  // namespace crema::server
