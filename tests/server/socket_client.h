// A client that sends arbitrary bytes.
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

  void Send(const std::string& bytes);  // drops bytes that the server no longer accepts
  void EndSending();
  // Reads one answer. An answer to HEAD, or with status 100, has no body.
  SocketAnswer Read(bool has_body = true);
  // Returns true if the server closes the connection within five seconds.
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
