#include "parallel/rank_group.h"

#include <utility>

#include "core/error.h"

namespace crema {
namespace {

// Returns true if the failed rank may not have queued work that other devices wait for.
bool LeavesOthersWaiting(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    return known.code() == ErrorCode::kDeviceFailure || known.code() == ErrorCode::kInternal;
  } catch (...) {
    return true;
  }
}

}  // namespace

RankGroup::RankGroup(int ranks, std::unique_ptr<Collective> collective)
    : size_(ranks), collective_(std::move(collective)) {
  CREMA_CHECK(ranks > 1);
}

void RankGroup::FailAsOtherRankFailed() {
  crema::Fail(ErrorCode::kCancelled, "another rank of this run has failed");
}

double RankGroup::Mean(int rank, double value) {
  double sum = 0;
  for (const Note& note : Exchange(rank, {.number = value})) sum += note.number;
  return sum / size_;
}

ThreadRanks::ThreadRanks(int ranks, std::unique_ptr<Collective> collective)
    : RankGroup(ranks, std::move(collective)), rendezvous_(ranks) {
  const auto count = static_cast<size_t>(ranks);
  for (std::vector<Note>& notes : notes_) notes.resize(count);
  calls_.resize(count);
}

std::span<const RankGroup::Note> ThreadRanks::Exchange(int rank, Note note) {
  const auto own = static_cast<size_t>(rank);
  std::vector<Note>& notes = notes_[calls_[own]++ % 2];
  notes[own] = std::move(note);
  if (!rendezvous_.Wait()) FailAsOtherRankFailed();
  return notes;
}

void ThreadRanks::Fail(int rank, const std::exception_ptr& error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.error) failure_ = {rank, error};
  }
  rendezvous_.Release();
  // Otherwise all ranks have queued the same work, and their devices finish it.
  if (LeavesOthersWaiting(error)) collective().Abort();
}

void ThreadRanks::ThrowIfFailed() const {
  if (rendezvous_.released()) FailAsOtherRankFailed();
}

RankGroup::Failure ThreadRanks::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool Rendezvous::Wait() {
  std::unique_lock lock(mutex_);
  if (released_) return false;
  const uint64_t round = round_;
  if (++here_ == parties_) {
    here_ = 0;
    ++round_;
    changed_.notify_all();
    return true;
  }
  changed_.wait(lock, [&] { return round_ != round || released_; });
  return round_ != round;
}

void Rendezvous::Release() noexcept {
  const std::lock_guard lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

bool Rendezvous::released() const {
  const std::lock_guard lock(mutex_);
  return released_;
}

}  // namespace crema
