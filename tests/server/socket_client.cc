#include "server/socket_client.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "core/strings.h"

namespace crema::test {

SocketClient::SocketClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit{20, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error("cannot connect");
  }
}

SocketClient::~SocketClient() { ::close(socket_); }

void SocketClient::Send(const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

void SocketClient::EndSending() { ::shutdown(socket_, SHUT_WR); }

bool SocketClient::Fill() {
  char bytes[32768];
  const ssize_t n = ::recv(socket_, bytes, sizeof(bytes), 0);
  if (n <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(n));
  return true;
}

SocketAnswer SocketClient::Read(bool has_body) {
  SocketAnswer answer;
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill()) return answer;
  }
  const std::string head = buffer_.substr(0, end);
  buffer_.erase(0, end + 4);
  answer.status = std::stoi(head.substr(9, 3));
  for (const std::string& line : Split(head, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string name = line.substr(0, colon);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    answer.fields[name] = Trim(std::string_view(line).substr(colon + 1));
  }
  if (!has_body || !answer.fields.contains("content-length")) return answer;
  const size_t length = std::stoul(answer.fields["content-length"]);
  while (buffer_.size() < length) {
    if (!Fill()) return {};
  }
  answer.body = buffer_.substr(0, length);
  buffer_.erase(0, length);
  return answer;
}

bool SocketClient::IsClosed() {
  const timeval limit{5, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  char byte = 0;
  const ssize_t n = ::recv(socket_, &byte, 1, 0);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

SocketAnswer Ask(uint16_t port, const std::string& bytes) {
  SocketClient client(port);
  client.Send(bytes);
  return client.Read();
}

SocketAnswer Get(uint16_t port, const std::string& path, const std::string& fields) {
  return Ask(port, StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n", fields, "\r\n"));
}

SocketAnswer Post(uint16_t port, const std::string& path, const std::string& body,
                  const std::string& fields) {
  return Ask(port, StrCat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\nContent-Length: ",
                          body.size(), "\r\n", fields, "\r\n", body));
}

}  // namespace crema::test
