// Ports for tests.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>

namespace crema::test {

inline sockaddr_in LoopbackAddress(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Returns a socket that is bound to a free port of 127.0.0.1, and the port.
inline int BindFreePort(int* port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = LoopbackAddress(0);
  socklen_t bytes = sizeof(address);
  const int on = 1;  // another can bind it right after this one
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    throw std::runtime_error("no port is free");
  }
  *port = ntohs(address.sin_port);
  return socket;
}

// Returns a port that is free now.
inline int FreePort() {
  int port = 0;
  ::close(BindFreePort(&port));
  return port;
}

}  // namespace crema::test
