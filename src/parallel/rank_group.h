// The ranks of one run on several devices: what their threads tell each other on the host.
#pragma once

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/collective.h"
#include "parallel/rendezvous.h"

namespace crema {

// Thread safety: one thread a rank; Fail and failure any.
class RankGroup {
 public:
  struct Note {
    double number = 0;
    std::string text = {};
  };

  // Requires two ranks or more. `collective` is of as many.
  RankGroup(int ranks, std::unique_ptr<Collective> collective);

  int size() const { return size_; }
  // A rank that failed is told of by the next Exchange, so call it in front of what must not be
  // begun without all of them.
  Collective& collective() const { return *collective_; }

  // All ranks call these as often, in the same order. Each waits until all are there, and throws
  // kCancelled once a rank has failed. The notes of all, by rank, stay until its next call.
  std::span<const Note> Exchange(int rank, Note note);
  double Mean(int rank, double value);  // the same bits in all ranks
  // That of rank 0.
  const Note& Lead(int rank, Note note) { return Exchange(rank, std::move(note))[0]; }

  // This rank ends with an exception: the others will not wait for it.
  void Fail(int rank, const std::exception_ptr& error) noexcept;
  // Throws kCancelled if any has failed: what its device was to add may be missing.
  void ThrowIfFailed() const;

  struct Failure {
    int rank = 0;
    std::exception_ptr error;  // null: none
  };
  // That of the rank which failed first.
  Failure failure() const;

 private:
  const int size_;
  const std::unique_ptr<Collective> collective_;
  Rendezvous rendezvous_;
  // Notes of one call and of the one before, which slower ranks may still be reading.
  std::array<std::vector<Note>, 2> notes_;
  std::vector<size_t> calls_;  // by rank
  mutable std::mutex mutex_;   // guards failure_
  Failure failure_;
};

}  // namespace crema
