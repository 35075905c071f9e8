// Ranks of processes, here threads whose messages go through memory.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "parallel/process_ranks.h"
#include "parallel/transport.h"

namespace crema::test {

// The messages between all ranks. Thread safety: any number of threads.
class MemoryNetwork {
 public:
  using Key = std::tuple<int, int, int>;  // from, to, channel

  void Send(const Key& key, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    messages_[key].emplace_back(bytes.begin(), bytes.end());
  }
  std::optional<size_t> Arrived(const Key& key) {
    const std::lock_guard lock(mutex_);
    if (messages_[key].empty()) return std::nullopt;
    return messages_[key].front().size();
  }
  bool Receive(const Key& key, std::span<std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    if (messages_[key].empty()) return false;
    const std::vector<std::byte>& next = messages_[key].front();
    CREMA_CHECK(next.size() == bytes.size());
    std::ranges::copy(next, bytes.begin());
    messages_[key].pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::deque<std::vector<std::byte>>> messages_;
};

// One rank. A receive is done when it is asked for: no test has two from one rank on one channel.
class MemoryTransport final : public Transport {
 public:
  MemoryTransport(MemoryNetwork* network, int rank, int size)
      : network_(*network), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host() const override { return StrCat("host", rank_); }
  Transfer Send(std::span<const std::byte> bytes, int to, int channel) override {
    network_.Send({rank_, to, channel}, bytes);
    return 0;
  }
  Transfer Receive(std::span<std::byte> bytes, int from, int channel) override {
    const std::lock_guard lock(mutex_);
    receives_[++last_] = {{from, rank_, channel}, bytes};
    return last_;
  }
  bool IsDone(Transfer transfer) override {
    if (transfer == 0) return true;
    const std::lock_guard lock(mutex_);
    const auto& [key, bytes] = receives_.at(transfer);
    if (!network_.Receive(key, bytes)) return false;
    receives_.erase(transfer);
    return true;
  }
  std::optional<size_t> Arrived(int from, int channel) override {
    return network_.Arrived({from, rank_, channel});
  }
  void End() override {}
  void Abort(int) noexcept override {}

 private:
  MemoryNetwork& network_;
  const int rank_;
  const int size_;
  std::mutex mutex_;
  Transfer last_ = 0;
  std::map<Transfer, std::pair<MemoryNetwork::Key, std::span<std::byte>>> receives_;
};

// Calls body in a thread for each rank. Returns what each has thrown or, if the run has failed, the
// failure that it knows.
inline std::vector<std::string> RunRanks(int size, const ProcessRanksOptions& options,
                                         const std::function<void(ProcessRanks&)>& body) {
  MemoryNetwork network;
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      MemoryTransport transport(&network, rank, size);
      const auto ranks = ProcessRanks::Make(transport, options);
      try {
        body(*ranks);
      } catch (...) {
        ranks->Fail(rank, std::current_exception());
      }
      try {
        if (ranks->failure().error) std::rethrow_exception(ranks->failure().error);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace crema::test
