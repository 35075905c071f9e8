#include "parallel/peers.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

template <typename Call>
auto Reported(const Call& call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    Fail(ErrorCode::kDeviceFailure, StrCat("MPI fails: ", error.what()));
  }
}

}  // namespace

void Patience::Restart() {
  waited_ = 0;
  calls_ = 0;
  last_ = std::chrono::steady_clock::now();
}

bool Patience::Lasts() {
  constexpr int kEager = 2000;  // calls without sleep, for the latency of fast networks
  constexpr double kLongestCall = 1;
  if (++calls_ <= kEager) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  const auto now = std::chrono::steady_clock::now();
  waited_ += std::min(kLongestCall, std::chrono::duration<double>(now - last_).count());
  last_ = now;
  return waited_ < seconds_;
}

Peers::Peers(Transport& transport, double timeout)
    : transport_(transport), rank_(transport.rank()), size_(transport.size()), timeout_(timeout) {}

std::string Peers::OwnHost() const {
  return Reported([&] { return transport_.host(); });
}

std::string Peers::NameOf(int rank) const {
  if (hosts_.empty()) return StrCat("rank ", rank);
  return StrCat("rank ", rank, " on ", hosts_[static_cast<size_t>(rank)]);
}

void Peers::Send(std::span<const std::byte> bytes, int to, Channel channel,
                 std::vector<Pending>* all) {
  all->push_back({Reported([&] { return transport_.Send(bytes, to, channel); }), to});
}

void Peers::Receive(std::span<std::byte> bytes, int from, Channel channel,
                    std::vector<Pending>* all) {
  all->push_back({Reported([&] { return transport_.Receive(bytes, from, channel); }), from});
}

void Peers::Poll(std::vector<Pending>* all) {
  std::erase_if(*all, [this](const Pending& one) {
    return Reported([&] { return transport_.IsDone(one.transfer); });
  });
}

void Peers::Await(std::vector<Pending>* all, const std::atomic<bool>& stop) {
  Patience patience(timeout_);
  for (Poll(all); !all->empty(); Poll(all)) {
    if (stop) Fail(ErrorCode::kCancelled, "the sums of this run were given up");
    if (patience.Lasts()) continue;
    std::vector<int> silent;
    for (const Pending& one : *all) silent.push_back(one.rank);
    FailAsSilent(silent);
  }
}

bool Peers::Take(int from, Channel channel, std::string* message) {
  const auto bytes = Reported([&] { return transport_.Arrived(from, channel); });
  if (!bytes) return false;
  message->resize(*bytes);
  std::vector<Pending> all;
  Receive(std::as_writable_bytes(std::span(*message)), from, channel, &all);
  Await(&all, false);
  return true;
}

void Peers::FailAsSilent(const std::vector<int>& ranks) const {
  constexpr size_t kNamed = 4;
  std::vector<int> sorted = ranks;
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<std::string> names;
  for (const int rank : sorted) {
    if (names.size() < kNamed) names.push_back(NameOf(rank));
  }
  if (sorted.size() > kNamed) names.push_back(StrCat(sorted.size() - kNamed, " more"));
  Fail(ErrorCode::kDeviceFailure,
       StrCat("no answer from ", Join(names, ", "), " for ", timeout_,
              " seconds: it hangs, is stopped, or its network is down. The run ends on all ranks; "
              "--resume=auto continues it from the last snapshot. If only a disk is slow, raise "
              "--rank_timeout"));
}

}  // namespace crema
