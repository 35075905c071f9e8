// Transfers between the processes of a run, with waits that end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "parallel/transport.h"

namespace crema {

// Measures how long a wait has taken. Leaves out times in which this process did not run, such as
// those after Ctrl-Z or of a laptop that slept. Thread safety: one thread.
class Patience {
 public:
  explicit Patience(double seconds) : seconds_(seconds) { Restart(); }

  void Restart();
  // Sleeps a little, longer after many calls. Returns false after the seconds.
  [[nodiscard]] bool Lasts();

 private:
  double seconds_;
  double waited_ = 0;
  int calls_ = 0;
  std::chrono::steady_clock::time_point last_;
};

// Throws kDeviceFailure if MPI fails, and what the transport throws. Thread safety: any number of
// threads, one for each channel.
class Peers {
 public:
  // The channels of messages; each is used by one thread.
  enum Channel { kNotes = 1, kAnswers, kBlobs, kPieces, kSums, kInPass };
  struct Pending {
    Transport::Transfer transfer = 0;
    int rank = 0;
  };

  // `timeout` is in seconds. `transport` must outlive this.
  Peers(Transport& transport, double timeout);

  int rank() const { return rank_; }
  int size() const { return size_; }
  double timeout() const { return timeout_; }
  std::string OwnHost() const;
  // Names a rank in messages: "rank 2 on hostb".
  std::string NameOf(int rank) const;
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }
  const std::vector<std::string>& hosts() const { return hosts_; }

  void Send(std::span<const std::byte> bytes, int to, Channel channel, std::vector<Pending>* all);
  void Receive(std::span<std::byte> bytes, int from, Channel channel, std::vector<Pending>* all);
  // Removes the transfers that are done.
  void Poll(std::vector<Pending>* all);
  // Waits for all. Throws kDeviceFailure with the ranks that do not answer within the timeout, and
  // kCancelled once `stop` is set.
  void Await(std::vector<Pending>* all, const std::atomic<bool>& stop);
  // Replaces `message` by the next one if it has arrived.
  bool Take(int from, Channel channel, std::string* message);
  [[noreturn]] void FailAsSilent(const std::vector<int>& ranks) const;

 private:
  Transport& transport_;
  const int rank_;
  const int size_;
  const double timeout_;
  std::vector<std::string> hosts_;  // by rank; empty until they are known
};

}  // namespace crema
