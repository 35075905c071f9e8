#include "server/grpc/acceptor.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema::server {
namespace {

// Returns 0 if the descriptor is closed or not a socket.
ino_t InodeOfSocket(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0 || !S_ISSOCK(status.st_mode)) return 0;
  return status.st_ino;
}

[[noreturn]] void CannotListen(const std::string& host, int port, const char* why) {
  Fail(ErrorCode::kIoFailure,
       StrCat("cannot listen on ", host, " port ", port, " for gRPC: ", why));
}

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

Address AddressOf(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) CannotListen(host, port, ::gai_strerror(error));
  Address address;
  address.size = found->ai_addrlen;
  std::memcpy(&address.bytes, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return address;
}

// Accepted sockets inherit the options.
int Listen(const std::string& host, int port) {
  const Address address = AddressOf(host, port);
  const int one = 1;
  const unsigned unanswered_ms = 20000;
  const int listener =
      ::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0 || ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
      ::setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) != 0 ||
      ::setsockopt(listener, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms,
                   sizeof(unanswered_ms)) != 0 ||
      ::bind(listener, reinterpret_cast<const sockaddr*>(&address.bytes), address.size) != 0 ||
      ::listen(listener, SOMAXCONN) != 0) {
    const int error = errno;
    if (listener >= 0) ::close(listener);
    CannotListen(host, port, std::strerror(error));
  }
  return listener;
}

int PortOf(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  CREMA_CHECK(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

int MakeEvent() {
  const int event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) Fail(ErrorCode::kIoFailure, StrCat("eventfd: ", std::strerror(errno)));
  return event;
}

// An error of the connection, not of the listener.
bool IsOfOneConnection(int error) {
  switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPERM:  // a firewall
    case EPROTO:
    case ENETDOWN:
    case ENETUNREACH:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case ENONET:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool OpenConnections::Add(int socket) {
  inodes_.erase(socket);  // the descriptor is reused, so its former socket is closed
  if (inodes_.size() >= most_) Sweep();
  if (inodes_.size() >= most_) return false;
  inodes_.emplace(socket, InodeOfSocket(socket));
  return true;
}

// Limits the cost of refusing many connections.
void OpenConnections::Sweep() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_sweep_) return;
  std::erase_if(inodes_, [](const auto& row) { return InodeOfSocket(row.first) != row.second; });
  next_sweep_ = now + std::chrono::milliseconds(100);
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

Acceptor::Acceptor(const std::string& host, int port, size_t connections)
    : listener_(Listen(host, port)),
      stop_(MakeEvent()),
      port_(PortOf(listener_.get())),
      open_(connections) {}

void Acceptor::Start(Take take, Report report) {
  thread_ = std::thread(
      [this, take = std::move(take), report = std::move(report)] { Run(take, report); });
}

void Acceptor::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  CREMA_CHECK(::write(stop_.get(), &one, sizeof(one)) == sizeof(one));
  thread_.join();
  // Later clients are refused at once.
  ::shutdown(listener_.get(), SHUT_RDWR);
}

void Acceptor::Run(const Take& take, const Report& report) {
  constexpr int kRetryMs = 100;
  bool accepts = true;
  bool reported = true;
  for (;;) {
    std::array<pollfd, 2> waits{{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}}};
    ::poll(waits.data(), accepts ? 2 : 1, accepts && reported ? -1 : kRetryMs);
    accepts = AcceptWaiting(take);
    try {
      if (accepts != reported) report(accepts);
      reported = accepts;
    } catch (...) {
      // Out of memory: reported later.
    }
    if (waits[0].revents != 0) return;
  }
}

bool Acceptor::AcceptWaiting(const Take& take) {
  constexpr int kMost = 4096;  // Linux's maximum backlog; bounds Stop() during a flood
  for (int i = 0; i < kMost; ++i) {
    const int socket = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) {
      bool counted = false;
      try {
        counted = open_.Add(socket);
        if (counted) take(socket);
      } catch (...) {
        // Out of memory: ends only this connection.
      }
      if (!counted) ::close(socket);
    } else if (!IsOfOneConnection(errno)) {
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
  }
  return true;
}

}  // namespace crema::server
