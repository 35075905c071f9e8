#include "parallel/tcp_transport.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

using Transfer = Transport::Transfer;

constexpr int kEndChannel = -1;    // the sender sends nothing more
constexpr int kAbortChannel = -2;  // the sender has ended the run; the size is its exit code
constexpr int kMostChannels = 16;
constexpr size_t kMostBytes = INT32_MAX;

struct Header {
  uint64_t bytes = 0;  // of the message, which follows
  int64_t channel = 0;
};
struct Outgoing {
  Header header;
  std::span<const std::byte> bytes;
  Transfer transfer = 0;
};
struct Awaited {
  std::span<std::byte> bytes;
  Transfer transfer = 0;
};
// Messages of one channel. Only one of the two has elements.
struct Inbox {
  std::deque<std::vector<std::byte>> arrived;
  std::deque<Awaited> awaited;
};

// Returns the code of an error with this exit code; of a lost rank for one that Crema does not
// have.
ErrorCode CodeOf(uint64_t exit_code) {
  for (const ErrorCode code : {ErrorCode::kInvalidArgument, ErrorCode::kDataLoss,
                               ErrorCode::kDiverged, ErrorCode::kInternal}) {
    if (static_cast<uint64_t>(ExitCode(code)) == exit_code) return code;
  }
  return ErrorCode::kDeviceFailure;
}

// The connection to one other process. Thread safety: one thread at a time.
class Connection {
 public:
  explicit Connection(TcpPeer peer) : peer_(std::move(peer)) {}

  bool exists() const { return static_cast<bool>(peer_.socket); }
  bool HasEnded() const { return ended_ && outgoing_.empty(); }
  // Throws if the process has ended or ended the run.
  void RequireOpen() const {
    if (!failure_.empty()) Fail(code_, failure_);
  }

  void Send(const Outgoing& message) {
    RequireOpen();
    outgoing_.push_back(message);
    unfinished_.insert(message.transfer);
    Progress();
  }
  void Receive(const Awaited& message, int channel) {
    Inbox& inbox = inboxes_[channel];
    if (inbox.arrived.empty()) {
      RequireOpen();
      inbox.awaited.push_back(message);
      unfinished_.insert(message.transfer);
      return;
    }
    if (!Fits(inbox.arrived.front().size(), message)) RequireOpen();
    std::ranges::copy(inbox.arrived.front(), message.bytes.begin());
    inbox.arrived.pop_front();
  }
  bool IsDone(Transfer transfer) {
    if (!unfinished_.contains(transfer)) return true;
    Progress();
    if (!unfinished_.contains(transfer)) return true;
    RequireOpen();
    return false;
  }
  std::optional<size_t> Arrived(int channel) {
    const Inbox& inbox = inboxes_[channel];
    if (inbox.arrived.empty()) Progress(true);
    if (!inbox.arrived.empty()) return inbox.arrived.front().size();
    RequireOpen();
    return std::nullopt;
  }
  // Sends what does not make it wait.
  void Push() {
    while (failure_.empty() && !outgoing_.empty() && Write()) {
    }
  }
  // Sends and receives what does not make it wait. A message that nobody asks for stays in the
  // system, which spares a copy, unless `all` are wanted.
  void Progress(bool all = false) {
    Push();
    while (failure_.empty() && !ended_ && Read(all)) {
    }
  }
  // Tells the process, unless a message is half sent.
  void Abort(int exit_code) noexcept {
    const Header header{.bytes = static_cast<uint64_t>(exit_code), .channel = kAbortChannel};
    if (sent_ == 0) {
      ::send(peer_.socket.get(), &header, sizeof(header), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    ::shutdown(peer_.socket.get(), SHUT_WR);
  }

 private:
  bool Write();
  bool Read(bool all);
  bool IsOpen(ssize_t moved);
  bool Place(bool all);
  void Deliver();
  bool Fits(size_t bytes, const Awaited& message);
  void Break(ErrorCode code, const std::string& what) {
    code_ = code;
    failure_ = StrCat(peer_.name, what);
  }

  TcpPeer peer_;
  std::deque<Outgoing> outgoing_;
  size_t sent_ = 0;  // bytes of the first, with its header
  std::map<int64_t, Inbox> inboxes_;
  Header header_;        // of the message that is being received
  size_t received_ = 0;  // bytes of it, with its header
  bool is_placed_ = false;
  std::vector<std::byte> buffer_;
  Awaited into_;  // where its bytes go; transfer 0: the buffer
  std::set<Transfer> unfinished_;
  bool ended_ = false;
  ErrorCode code_ = ErrorCode::kDeviceFailure;
  std::string failure_;
};

// Returns false if nothing has moved.
bool Connection::IsOpen(ssize_t moved) {
  if (moved > 0) return true;
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  const std::string reason = moved == 0 ? "closed" : std::generic_category().message(errno);
  Break(ErrorCode::kDeviceFailure,
        StrCat(" has ended, or its network has: its connection is lost (", reason,
               "). The run ends on all ranks; --resume=auto continues it from the last snapshot"));
  return false;
}

bool Connection::Write() {
  Outgoing& message = outgoing_.front();
  constexpr size_t kHeader = sizeof(Header);
  const size_t of_header = std::min(sent_, kHeader);
  const size_t of_bytes = sent_ - of_header;
  std::array<iovec, 2> parts = {
      iovec{reinterpret_cast<std::byte*>(&message.header) + of_header, kHeader - of_header},
      iovec{const_cast<std::byte*>(message.bytes.data()) + of_bytes,
            message.bytes.size() - of_bytes}};
  msghdr all{};
  all.msg_iov = parts.data();
  all.msg_iovlen = parts.size();
  const ssize_t sent = ::sendmsg(peer_.socket.get(), &all, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (sent < 0) {
    const int error = errno;
    while (failure_.empty() && !ended_ && Read(true)) {  // what it has sent before may say more
    }
    errno = error;
    if (failure_.empty()) IsOpen(sent);
    return false;
  }
  sent_ += static_cast<size_t>(sent);
  if (sent_ < kHeader + message.bytes.size()) return true;
  unfinished_.erase(message.transfer);
  outgoing_.pop_front();
  sent_ = 0;
  return true;
}

bool Connection::Read(bool all) {
  if (received_ < sizeof(Header)) {
    const ssize_t got =
        ::recv(peer_.socket.get(), reinterpret_cast<std::byte*>(&header_) + received_,
               sizeof(Header) - received_, MSG_DONTWAIT);
    if (!IsOpen(got)) return false;
    received_ += static_cast<size_t>(got);
    if (received_ < sizeof(Header)) return true;
    is_placed_ = false;
  }
  if (!is_placed_) {
    if (!Place(all)) return false;
    is_placed_ = true;
  } else {
    const size_t done = received_ - sizeof(Header);
    const ssize_t got = ::recv(peer_.socket.get(), into_.bytes.data() + done,
                               into_.bytes.size() - done, MSG_DONTWAIT);
    if (!IsOpen(got)) return false;
    received_ += static_cast<size_t>(got);
  }
  if (failure_.empty() && !ended_ && received_ == sizeof(Header) + header_.bytes) Deliver();
  return true;
}

// Finds out where the bytes of a message go. Returns false if it stays in the system.
bool Connection::Place(bool all) {
  if (header_.channel == kEndChannel) {
    ended_ = true;
  } else if (header_.channel == kAbortChannel) {
    Break(CodeOf(header_.bytes), " has ended the run: its log says why");
  } else if (header_.bytes > kMostBytes || header_.channel < 0 || header_.channel > kMostChannels) {
    Break(
        ErrorCode::kDeviceFailure,
        " sends no messages of Crema: another program has taken its place, or the network changes "
        "what it sends. The run ends on all ranks; --resume=auto continues it from the last "
        "snapshot");
  } else {
    Inbox& inbox = inboxes_[header_.channel];
    into_ = {};
    if (!inbox.awaited.empty() && Fits(header_.bytes, inbox.awaited.front())) {
      into_ = inbox.awaited.front();
      inbox.awaited.pop_front();
    } else {
      const auto waits = [](const auto& entry) { return !entry.second.awaited.empty(); };
      if (!all && std::ranges::none_of(inboxes_, waits)) return false;
      buffer_.resize(header_.bytes);
      into_.bytes = buffer_;
    }
  }
  return true;
}

void Connection::Deliver() {
  received_ = 0;
  Inbox& inbox = inboxes_[header_.channel];
  if (into_.transfer == 0 && !inbox.awaited.empty()) {  // asked for since it began to arrive
    into_ = inbox.awaited.front();
    if (!Fits(buffer_.size(), into_)) return;
    std::ranges::copy(buffer_, into_.bytes.begin());
    inbox.awaited.pop_front();
  }
  if (into_.transfer == 0) {
    inbox.arrived.push_back(std::move(buffer_));
  } else {
    unfinished_.erase(into_.transfer);
  }
  buffer_ = {};
}

bool Connection::Fits(size_t bytes, const Awaited& message) {
  if (bytes == message.bytes.size()) return true;
  Break(ErrorCode::kDeviceFailure,
        StrCat(" has sent ", bytes, " bytes where this rank expects ", message.bytes.size(),
               ": do all ranks have the same version of Crema, the same files and flags?"));
  return false;
}

class TcpTransport final : public Transport {
 public:
  TcpTransport(int rank, std::vector<TcpPeer> peers) : rank_(rank) {
    for (TcpPeer& peer : peers) connections_.emplace_back(std::move(peer));
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(connections_.size()); }
  std::string host() const override {
    std::array<char, 256> name{};
    ::gethostname(name.data(), name.size() - 1);
    return name.data();
  }
  Transfer Send(std::span<const std::byte> bytes, int to, int channel) override {
    CREMA_CHECK(bytes.size() <= kMostBytes && channel >= 0 && channel <= kMostChannels);
    const std::lock_guard lock(mutex_);
    const Transfer transfer = NewTransfer(to);
    Of(to).Send({{bytes.size(), channel}, bytes, transfer});
    return transfer;
  }
  Transfer Receive(std::span<std::byte> bytes, int from, int channel) override {
    const std::lock_guard lock(mutex_);
    const Transfer transfer = NewTransfer(from);
    Of(from).Receive({bytes, transfer}, channel);
    return transfer;
  }
  bool IsDone(Transfer transfer) override {
    const std::lock_guard lock(mutex_);
    PushAll();
    return Of(static_cast<int>(transfer % connections_.size())).IsDone(transfer);
  }
  std::optional<size_t> Arrived(int from, int channel) override {
    const std::lock_guard lock(mutex_);
    PushAll();
    return Of(from).Arrived(channel);
  }
  void End() override;
  void Abort(int exit_code) noexcept override {
    const std::lock_guard lock(mutex_);
    for (Connection& one : connections_) {
      if (one.exists()) one.Abort(exit_code);
    }
  }

 private:
  // Others may wait for what is sent, while this process waits for somebody else.
  void PushAll() {
    for (Connection& one : connections_) one.Push();
  }
  Connection& Of(int rank) { return connections_[static_cast<size_t>(rank)]; }
  // The remainder is the rank of the other process.
  Transfer NewTransfer(int rank) {
    return ++transfers_ * connections_.size() + static_cast<size_t>(rank);
  }

  const int rank_;
  std::mutex mutex_;                    // guards the members below
  std::deque<Connection> connections_;  // by rank
  Transfer transfers_ = 0;
};

void TcpTransport::End() {
  const std::lock_guard lock(mutex_);
  for (int r = 0; r < size(); ++r) {
    if (r != rank_) Of(r).Send({{0, kEndChannel}, {}, NewTransfer(r)});
  }
  for (int r = 0; r < size(); ++r) {
    while (r != rank_ && !Of(r).HasEnded()) {
      PushAll();
      Of(r).Progress(true);
      Of(r).RequireOpen();
      if (!Of(r).HasEnded()) ::poll(nullptr, 0, 1);
    }
  }
}

}  // namespace

std::unique_ptr<Transport> MakeTcpTransport(const TcpPlace& place, double timeout,
                                            const std::function<void(const std::string&)>& warn) {
  return std::make_unique<TcpTransport>(place.rank, MeetByTcp(place, timeout, warn));
}

}  // namespace crema
