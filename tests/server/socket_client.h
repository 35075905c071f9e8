// A client that sends whatever bytes a test wants.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace crema::test {

struct SocketAnswer {
  int status = 0;                             // 0: the connection ended without an answer
  std::map<std::string, std::string> fields;  // names in lower case
  std::string body;
};

// Thread safety: one thread.
class SocketClient {
 public:
  explicit SocketClient(uint16_t port);  // on 127.0.0.1; throws std::runtime_error
  ~SocketClient();
  SocketClient(const SocketClient&) = delete;
  SocketClient& operator=(const SocketClient&) = delete;

  void Send(const std::string& bytes);  // what the other side does not take any more is dropped
  void EndSending();
  // One answer. Without a body where it answers HEAD, or with 100.
  SocketAnswer Read(bool has_body = true);
  // Whether the other side closed, within five seconds.
  bool IsClosed();

 private:
  bool Fill();
  int socket_ = -1;
  std::string buffer_;
};

SocketAnswer Ask(uint16_t port, const std::string& bytes);
SocketAnswer Get(uint16_t port, const std::string& path, const std::string& fields = "");
SocketAnswer Post(uint16_t port, const std::string& path, const std::string& body,
                  const std::string& fields = "");

}  // namespace crema::test
