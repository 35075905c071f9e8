// A session of a model for one set of input shapes.
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
  std::vector<std::string> states;  // layers with state
  bool shares = false;              // shares packed weights, since its first pass
};

// Keeps a used session whose packed weights serve the next runner. Thread safety: any number of
// threads.
class WarmSession {
 public:
  void Put(std::unique_ptr<RunningSession> session) {
    const std::lock_guard lock(mutex_);
    session_ = std::move(session);
  }
  std::unique_ptr<RunningSession> Take() {  // returns null if there is none
    const std::lock_guard lock(mutex_);
    return std::move(session_);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<RunningSession> session_;
};

}  // namespace crema
