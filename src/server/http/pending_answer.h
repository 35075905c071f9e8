// The pending answer to a request of one connection. For connection.h.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <utility>

#include "server/http/message.h"

namespace crema::server {

// The read-ahead owns the connection. If no answer is given (out of memory), the destructor ends
// it. Thread safety: one thread at a time; not that of the connection.
template <typename Connection>
class PendingAnswer {
 public:
  explicit PendingAnswer(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)), socket_(connection_->native_socket()) {}
  ~PendingAnswer() {
    if (connection_ == nullptr) return;
    connection_->Lose();
    ::shutdown(socket_, SHUT_RDWR);  // wakes the read-ahead
  }
  PendingAnswer(const PendingAnswer&) = delete;
  PendingAnswer& operator=(const PendingAnswer&) = delete;

  // May be called once.
  void Give(HttpResponse response) {
    connection_->PostAnswer(std::move(response));
    connection_.reset();
  }

 private:
  std::shared_ptr<Connection> connection_;
  const int socket_;  // stays open until the answer
};

}  // namespace crema::server
