#include "solvers/iteration_start.h"

#include <cstring>

#include "core/device_queue.h"

namespace crema {
namespace {

void Copy(const Session& session, const TensorView& to, const ConstTensorView& from) {
  DeviceQueue* const queue = session.context().queue();
  if (!session.OnGpu()) {
    std::memcpy(to.raw(), from.raw(), from.bytes());
  } else {
    LosingQueue(queue, [&] { queue->Copy(to.raw(), from.raw(), from.bytes()); });
  }
}

}  // namespace

void IterationStart::Take(const Session& session) {
  mark_.Take(session);
  const std::vector<LearnedSlot>& learned = session.plan().learned;
  statistics_.resize(learned.size());
  for (size_t s = 0; s < learned.size(); ++s) {
    if (!learned[s].statistic || learned[s].owner != static_cast<int>(s)) continue;
    const TensorView now = session.LearnedBlob(s);
    Tensor& copy = statistics_[s];
    if (copy.view().empty()) {
      copy = Tensor(now.shape(), now.dtype(), session.context().allocator());
    }
    Copy(session, copy.view(), now);
  }
}

void IterationStart::PutBack(Session* session) const {
  for (size_t s = 0; s < statistics_.size(); ++s) {
    const ConstTensorView before = statistics_[s].view();
    if (!before.empty()) Copy(*session, session->LearnedBlob(s), before);
  }
  session->RestoreState("train", mark_.readers());
  session->set_step(mark_.step());
}

}  // namespace crema
