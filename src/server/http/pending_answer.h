// A request that is being answered, of one connection. For connection.h.
#pragma once

#include <sys/socket.h>

#include <memory>
#include <utility>

#include "server/http/message.h"

namespace crema::server {

// What reads ahead holds the connection: where no answer comes (memory is short), the end of this
// ends it. Thread safety: one thread at a time; not that of the connection.
template <typename Connection>
class PendingAnswer {
 public:
  explicit PendingAnswer(std::shared_ptr<Connection> connection)
      : connection_(std::move(connection)), socket_(connection_->native_socket()) {}
  ~PendingAnswer() {
    if (connection_ == nullptr) return;
    connection_->Lose();
    ::shutdown(socket_, SHUT_RDWR);  // what reads hears of it
  }
  PendingAnswer(const PendingAnswer&) = delete;
  PendingAnswer& operator=(const PendingAnswer&) = delete;

  // Once.
  void Give(HttpResponse response) {
    connection_->PostAnswer(std::move(response));
    connection_.reset();
  }

 private:
  std::shared_ptr<Connection> connection_;
  const int socket_;  // nothing closes it before the answer
};

}  // namespace crema::server
