#include "parallel/tcp_meeting.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "core/strings.h"

namespace crema {
namespace {

constexpr int kMostRanks = 4096;
constexpr size_t kMostGuests = 64;  // and two for each rank
constexpr std::array<char, 8> kHelloMark = {'C', 'R', 'E', 'M', 'A', '-', 'H', '1'};
constexpr std::array<char, 8> kAnswerMark = {'C', 'R', 'E', 'M', 'A', '-', 'A', '1'};

// The first bytes of a connection, by the process that has made it.
struct Hello {
  std::array<char, 8> mark = kHelloMark;
  uint64_t run = 0;  // a number that rank 0 has drawn; 0 to rank 0 itself
  int32_t rank = 0;
  int32_t size = 0;
  int32_t port = 0;  // at which this process listens
  int32_t unused = 0;
};
// The answer of rank 0. The addresses of all ranks follow, unless there is a refusal.
struct Answer {
  std::array<char, 8> mark = kAnswerMark;
  uint64_t run = 0;
  ErrorCode code = ErrorCode::kDeviceFailure;  // of the refusal
  std::array<char, 252> refusal{};             // ends with 0
};
struct Address {
  std::array<char, 64> host{};  // empty: the host of rank 0
  int32_t port = 0;
};
// A connection that has not said whose it is.
struct Guest {
  Socket socket;
  Hello hello;
  size_t bytes = 0;
};

std::string TextOf(int error) { return std::generic_category().message(error); }

template <typename T>
std::span<const std::byte> BytesOfOne(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <typename T>
std::span<std::byte> RoomOfOne(T* value) {
  return std::as_writable_bytes(std::span(value, 1));
}

template <size_t n>
void CopyText(std::string_view text, std::array<char, n>* to) {
  std::copy_n(text.data(), std::min(text.size(), n - 1), to->data());
}

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

struct FreeAddresses {
  void operator()(addrinfo* all) const { ::freeaddrinfo(all); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// Returns none, and the reason, for a name that does not exist or not yet.
Addresses Resolve(const std::string& host, int port, std::string* reason) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), StrCat(port).c_str(), &hints, &found);
  if (code != 0) *reason = code == EAI_SYSTEM ? TextOf(errno) : ::gai_strerror(code);
  return Addresses(code == 0 ? found : nullptr);
}

// Returns the address and port of one end, by ::getpeername or ::getsockname.
std::pair<std::string, int> EndOf(const Socket& socket, int (*end)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t bytes = sizeof(address);
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (end(socket.get(), general, &bytes) != 0) return {"", 0};
  ::getnameinfo(general, bytes, host.data(), host.size(), port.data(), port.size(),
                NI_NUMERICHOST | NI_NUMERICSERV);
  std::string_view text = host.data();
  constexpr std::string_view kMapped = "::ffff:";  // version 4, as a socket of version 6 shows it
  if (text.starts_with(kMapped)) text.remove_prefix(kMapped.size());
  return {std::string(text), std::atoi(port.data())};
}

void SendAtOnce(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// Returns true for a hello that a rank of some run sends. `is_to_first`: to rank 0.
bool IsOfARank(const Hello& hello, bool is_to_first) {
  constexpr int kMostPort = 65535;
  const bool has_port = hello.port > 0 && hello.port <= kMostPort;
  return hello.mark == kHelloMark && hello.size <= kMostRanks && hello.rank > 0 &&
         hello.rank < hello.size && has_port == is_to_first;
}

// Returns true once the other end has closed. What it has sent stays to be received.
bool IsGone(const Socket& socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket.get(), &byte, 1, MSG_PEEK);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

// The meeting, as one process sees it.
class Meeting {
 public:
  Meeting(const TcpPlace& place, double timeout,
          const std::function<void(const std::string&)>& warn)
      : place_(place),
        timeout_(timeout),
        warn_(warn),
        peers_(static_cast<size_t>(place.size)),
        addresses_(peers_.size()) {}

  std::vector<TcpPeer> Meet() {
    Listen();
    if (place_.rank == 0) {
      run_ = std::random_device()() | uint64_t{1} << 32U;
      Accept();
      Answer answer;
      answer.run = run_;
      for (size_t r = 1; r < peers_.size(); ++r) {
        const Socket& to = peers_[r].socket;
        if (!WriteAll(to, BytesOfOne(answer)) ||
            !WriteAll(to, std::as_bytes(std::span(addresses_)))) {
          FailAsGone(peers_[r]);
        }
      }
    } else {
      AskFirst();
      for (int r = 1; r < place_.rank; ++r) ConnectToRank(r);
      Accept();
    }
    return std::move(peers_);
  }

 private:
  std::string FirstName() const {
    return StrCat("rank 0 at ", place_.address, ", port ", place_.port);
  }
  // Waits a little for events of a socket, or longer for none. Returns false after the timeout.
  [[nodiscard]] bool Wait(int socket, short events, const std::string& for_what) {
    pollfd polled{.fd = socket, .events = events, .revents = 0};
    ::poll(&polled, 1, socket < 0 ? 100 : 10);
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
    if (since.count() > 5 && !reported_) {
      reported_ = true;
      warn_(StrCat("rank ", place_.rank, " waits for ", for_what));
    }
    return since.count() < timeout_;
  }
  [[noreturn]] void FailAsLate(const std::string& what) const {
    crema::Fail(ErrorCode::kDeviceFailure,
                StrCat("rank ", place_.rank, " has waited ", timeout_, " seconds for ", what,
                       ". Start all ranks within this time (--rank_timeout sets it), with the same "
                       "MASTER_ADDR and MASTER_PORT, which all must reach"));
  }
  [[noreturn]] static void FailAsGone(const TcpPeer& peer) {
    crema::Fail(ErrorCode::kDeviceFailure,
                StrCat(peer.name, " has ended at the start: its log says why"));
  }
  // Return false once the other end has closed.
  bool WriteAll(const Socket& socket, std::span<const std::byte> bytes);
  bool ReadAll(const Socket& socket, std::span<std::byte> to);

  void Listen();
  bool ListenAt(const addrinfo& address);
  Socket Connect(const std::string& host, int port, std::string* reason);
  void AskFirst();
  bool TakeAnswer(const Socket& first, std::string* reason);
  void ConnectToRank(int rank);
  void Accept();
  bool Admit(Guest* guest);
  void WarnOfStranger(const Guest& guest);
  std::string ProblemOf(const Hello& hello, const std::string& name) const;
  void Refuse(ErrorCode code, const std::string& text, const Socket* guest);
  std::vector<int> Missing();

  const TcpPlace& place_;
  const double timeout_;
  const std::function<void(const std::string&)>& warn_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool reported_ = false;
  bool stranger_reported_ = false;
  uint64_t run_ = 0;
  Socket listener_;
  std::vector<TcpPeer> peers_;
  std::vector<Address> addresses_;
};

bool Meeting::WriteAll(const Socket& socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent > 0) bytes = bytes.subspan(static_cast<size_t>(sent));
    if (sent < 0 && !Wait(socket.get(), POLLOUT, "others")) FailAsLate("others to read");
  }
  return true;
}

bool Meeting::ReadAll(const Socket& socket, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = ::recv(socket.get(), to.data(), to.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (got > 0) to = to.subspan(static_cast<size_t>(got));
    if (got < 0 && !Wait(socket.get(), POLLIN, "the other ranks, as rank 0 does")) {
      FailAsLate(StrCat(FirstName(), " to answer"));
    }
  }
  return true;
}

// Returns false if this host has no such address.
bool Meeting::ListenAt(const addrinfo& address) {
  Socket socket(
      ::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  const int on = 1;
  const int off = 0;  // of version 6 only
  if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (socket && address.ai_family == AF_INET6) {
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (!socket || ::bind(socket.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT) return false;
    const std::string where = place_.rank == 0 ? StrCat(" at port ", place_.port) : "";
    const bool taken = errno == EADDRINUSE;
    crema::Fail(taken ? ErrorCode::kInvalidArgument : ErrorCode::kDeviceFailure,
                StrCat("rank ", place_.rank, " cannot listen", where, ": ", TextOf(errno),
                       taken ? ". Another run or program has this port, or another process has "
                               "RANK 0: give all ranks another MASTER_PORT"
                             : ""));
  }
  listener_ = std::move(socket);
  return true;
}

// On all networks, since the name of rank 0 may mean something else on its own host.
void Meeting::Listen() {
  std::vector<std::string> hosts = {"::", "0.0.0.0"};
  if (IsLoopback(place_.address)) hosts = {place_.address};
  std::string reason = "there is no network";
  for (const std::string& host : hosts) {
    const Addresses all = Resolve(host, place_.rank == 0 ? place_.port : 0, &reason);
    for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
      if (ListenAt(*one)) return;
    }
  }
  crema::Fail(ErrorCode::kDeviceFailure, StrCat("rank ", place_.rank, " cannot listen: ", reason));
}

// Tries all addresses of the host once. Returns none, and the reason, if nobody listens there.
Socket Meeting::Connect(const std::string& host, int port, std::string* reason) {
  constexpr std::chrono::seconds kMost(3);
  const Addresses all = Resolve(host, port, reason);
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    Socket socket(
        ::socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    int error = !socket ? errno : 0;
    if (socket && ::connect(socket.get(), one->ai_addr, one->ai_addrlen) != 0) error = errno;
    const auto end = std::chrono::steady_clock::now() + kMost;
    while (error == EINPROGRESS && std::chrono::steady_clock::now() < end) {
      pollfd polled{.fd = socket.get(), .events = POLLOUT, .revents = 0};
      if (!Wait(socket.get(), POLLOUT, StrCat(host, ", port ", port))) break;
      if (::poll(&polled, 1, 0) != 1) continue;
      socklen_t bytes = sizeof(error);
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    }
    // While nobody listens, a connection to a port of this host can have itself as its other end.
    if (error == 0 && EndOf(socket, ::getpeername) == EndOf(socket, ::getsockname)) {
      error = ECONNREFUSED;
    }
    if (error == 0) {
      SendAtOnce(socket);
      return socket;
    }
    *reason = error == EINPROGRESS ? "no answer" : TextOf(error);
  }
  return Socket();
}

// Until rank 0 listens, and again if it is started anew.
void Meeting::AskFirst() {
  const auto port = EndOf(listener_, ::getsockname).second;
  const Hello hello{.rank = place_.rank, .size = place_.size, .port = port};
  std::string reason;
  do {
    Socket first = Connect(place_.address, place_.port, &reason);
    if (first && WriteAll(first, BytesOfOne(hello)) && TakeAnswer(first, &reason)) {
      peers_[0] = {std::move(first), StrCat("rank 0 at ", place_.address)};
      return;
    }
  } while (Wait(-1, 0, StrCat(FirstName(), " (", reason, ")")));
  FailAsLate(StrCat(FirstName(), " (", reason, ")"));
}

bool Meeting::TakeAnswer(const Socket& first, std::string* reason) {
  Answer answer;
  *reason = "what listens there is not rank 0";
  if (!ReadAll(first, RoomOfOne(&answer))) return false;
  if (answer.mark != kAnswerMark) return false;
  answer.refusal.back() = '\0';
  if (answer.refusal[0] != '\0') {
    // Whatever listens there can have sent it.
    crema::Fail(
        answer.code == ErrorCode::kInvalidArgument ? answer.code : ErrorCode::kDeviceFailure,
        StrCat(FirstName(), " has ended the run: ", Printable(answer.refusal.data())));
  }
  run_ = answer.run;
  return ReadAll(first, std::as_writable_bytes(std::span(addresses_)));
}

void Meeting::ConnectToRank(int rank) {
  Address& address = addresses_[static_cast<size_t>(rank)];
  address.host.back() = '\0';
  std::string host = Printable(address.host.data());
  if (host.empty()) host = EndOf(peers_[0].socket, ::getpeername).first;
  const Hello hello{.run = run_, .rank = place_.rank, .size = place_.size};
  const std::string name = StrCat("rank ", rank, " at ", host);
  std::string reason;
  do {
    Socket socket = Connect(host, address.port, &reason);
    for (const TcpPeer& lower : peers_) {
      if (lower.socket && IsGone(lower.socket)) FailAsGone(lower);
    }
    if (!socket || !WriteAll(socket, BytesOfOne(hello))) continue;
    peers_[static_cast<size_t>(rank)] = {std::move(socket), name};
    return;
  } while (Wait(-1, 0, StrCat(name, ", port ", address.port, " (", reason, ")")));
  FailAsLate(StrCat(name, ", port ", address.port, " (", reason, ")"));
}

// Returns the ranks above this one that are not connected. Rank 0 forgets those that have gone
// again: they may be started anew.
std::vector<int> Meeting::Missing() {
  std::vector<int> missing;
  for (int r = 0; r < place_.size; ++r) {
    TcpPeer& peer = peers_[static_cast<size_t>(r)];
    if (peer.socket && IsGone(peer.socket)) {
      if (place_.rank != 0) FailAsGone(peer);
      peer.socket = Socket();
    }
    if (r > place_.rank && !peer.socket) missing.push_back(r);
  }
  return missing;
}

// Lets in the ranks above this one.
void Meeting::Accept() {
  std::vector<Guest> guests;
  for (std::vector<int> missing = Missing(); !missing.empty(); missing = Missing()) {
    std::vector<std::string> names;
    for (const int r : missing) names.push_back(StrCat(r));
    const std::string who = StrCat(names.size() == 1 ? "rank " : "ranks ", Join(names, ", "),
                                   place_.rank == 0 ? StrCat(" at port ", place_.port) : "");
    if (!Wait(listener_.get(), POLLIN, who)) {
      Refuse(ErrorCode::kDeviceFailure, StrCat("it has waited ", timeout_, " seconds for ", who),
             nullptr);
      FailAsLate(who);
    }
    Socket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const bool full = !socket && (errno == EMFILE || errno == ENFILE);
    if (full && !guests.empty()) {
      guests.erase(guests.begin());
    } else if (full) {
      crema::Fail(ErrorCode::kOutOfMemory,
                  StrCat("no connection can be opened any more (", TextOf(errno),
                         "): raise the limit of descriptors (ulimit -n)"));
    }
    if (socket) guests.push_back({std::move(socket), {}, 0});
    if (guests.size() > kMostGuests + 2 * peers_.size()) guests.erase(guests.begin());
    std::erase_if(guests, [this](Guest& guest) {
      auto* const to = reinterpret_cast<std::byte*>(&guest.hello) + guest.bytes;
      const ssize_t got = ::recv(guest.socket.get(), to, sizeof(Hello) - guest.bytes, 0);
      if (got < 0) return errno != EAGAIN && errno != EINTR;
      guest.bytes += static_cast<size_t>(got);
      return got == 0 || (guest.bytes == sizeof(Hello) && Admit(&guest));
    });
  }
}

// Takes the connection of a guest that belongs to the run. Returns true: it is a guest no more.
bool Meeting::Admit(Guest* guest) {
  const Hello& hello = guest->hello;
  const bool is_first = place_.rank == 0;
  if (!IsOfARank(hello, is_first) || hello.run != (is_first ? 0 : run_)) {
    WarnOfStranger(*guest);
    return true;
  }
  const std::string host = EndOf(guest->socket, ::getpeername).first;
  const std::string name = StrCat("rank ", hello.rank, " at ", host);
  const std::string problem = ProblemOf(hello, name);
  if (!problem.empty()) {
    if (!is_first) return true;
    Refuse(ErrorCode::kInvalidArgument, problem, &guest->socket);
    crema::Fail(ErrorCode::kInvalidArgument, problem);
  }
  const auto r = static_cast<size_t>(hello.rank);
  addresses_[r] = {.port = hello.port};
  // From the host of rank 0 itself; others reach it as they reach rank 0.
  if (!IsLoopback(host)) CopyText(host, &addresses_[r].host);
  SendAtOnce(guest->socket);
  peers_[r] = {std::move(guest->socket), name};
  return true;
}

void Meeting::WarnOfStranger(const Guest& guest) {
  if (std::exchange(stranger_reported_, true)) return;
  const std::string_view sent(reinterpret_cast<const char*>(&guest.hello), guest.bytes);
  warn_(StrCat("rank ", place_.rank, " ignores a connection from ",
               EndOf(guest.socket, ::getpeername).first,
               ", which is of no rank of this run: it sent '", Printable(sent), "'"));
}

std::string Meeting::ProblemOf(const Hello& hello, const std::string& name) const {
  if (hello.size != place_.size) {
    return StrCat(name, " has WORLD_SIZE ", hello.size, ", and rank ", place_.rank, " has ",
                  place_.size);
  }
  if (hello.rank <= place_.rank || hello.rank >= place_.size) {
    return StrCat(name, " has a RANK that this run does not have");
  }
  const TcpPeer& peer = peers_[static_cast<size_t>(hello.rank)];
  return peer.socket && !IsGone(peer.socket)
             ? StrCat("two processes have RANK ", hello.rank, ": ", peer.name, ", and ", name)
             : "";
}

// Tells the others why the run does not start.
void Meeting::Refuse(ErrorCode code, const std::string& text, const Socket* guest) {
  if (place_.rank != 0) return;
  Answer answer;
  answer.code = code;
  CopyText(text, &answer.refusal);
  if (guest != nullptr) WriteAll(*guest, BytesOfOne(answer));
  for (const TcpPeer& peer : peers_) {
    if (peer.socket) WriteAll(peer.socket, BytesOfOne(answer));
  }
}

int NumberOf(const char* variable, int least, int most) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the environment has no ", variable,
                ". Processes that meet without MPI need RANK, WORLD_SIZE, MASTER_ADDR and "
                "MASTER_PORT; with --transport=none each trains for itself"));
  }
  int number = 0;
  const char* const end = text + std::strlen(text);
  const auto [last, error] = std::from_chars(text, end, number);
  if (error != std::errc() || last != end || number < least || number > most) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(variable, " is '", text, "' in the environment; give ", least, " to ", most));
  }
  return number;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

TcpPlace TcpPlaceOfEnvironment() {
  constexpr int kMostPort = 65535;
  TcpPlace place;
  place.size = NumberOf("WORLD_SIZE", 1, kMostRanks);
  place.rank = NumberOf("RANK", 0, place.size - 1);
  if (place.size == 1) return place;
  place.port = NumberOf("MASTER_PORT", 1, kMostPort);
  const char* const address = std::getenv("MASTER_ADDR");
  place.address = address == nullptr ? "" : address;
  if (place.address.starts_with('[') && place.address.ends_with(']')) {
    place.address = place.address.substr(1, place.address.size() - 2);
  }
  if (place.address.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "MASTER_ADDR is not set: give the name or address of the host of rank 0, which all ranks "
         "reach");
  }
  const char* const agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  if (agent != nullptr && std::string_view(agent) == "True") {
    place.port += place.port < kMostPort ? 1 : -1;
  }
  return place;
}

std::vector<TcpPeer> MeetByTcp(const TcpPlace& place, double timeout,
                               const std::function<void(const std::string&)>& warn) {
  if (place.size == 1) return std::vector<TcpPeer>(1);
  return Meeting(place, timeout, warn).Meet();
}

}  // namespace crema
