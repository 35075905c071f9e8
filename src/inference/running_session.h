// A session of a model for inputs of some extents.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session.h"

namespace crema {

// Thread safety: one thread at a time.
struct RunningSession {
  RunningSession(const std::shared_ptr<const Plan>& plan,
                 const std::shared_ptr<const Weights>& weights, ExecContext context,
                 PackedWeightCache* packed_weights)
      : session(plan, weights, std::move(context)) {
    session.FixWeights();
    session.SharePacked(packed_weights);
    for (size_t i = 0; i < plan->layers.size(); ++i) {
      if (session.state(i) != nullptr) states.push_back(plan->layers[i].name());
    }
  }

  Session session;
  std::vector<std::string> states;  // layers that remember something
  bool shares = false;              // what it made of the weights, since its first pass
};

// One that ran and is not needed any more: what it has made of the weights serves the next.
// Thread safety: any number of threads.
class WarmSession {
 public:
  void Put(std::unique_ptr<RunningSession> session) {
    const std::lock_guard lock(mutex_);
    session_ = std::move(session);
  }
  std::unique_ptr<RunningSession> Take() {  // null: none is there
    const std::lock_guard lock(mutex_);
    return std::move(session_);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<RunningSession> session_;
};

}  // namespace crema
