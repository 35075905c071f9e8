// Components of a Model.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"
#include "inference/model.h"
#include "plan/plan.h"
#include "runtime/packed_weight_cache.h"
#include "runtime/session.h"

namespace crema {

// A top of an Input layer.
struct InputBlob {
  std::string name;
  int layer = 0;  // index in the net
  int top = 0;    // index in that layer
};

// Returns the inputs in the order of the net, for the layers that `state` admits.
std::vector<InputBlob> FindInputs(const NetParameter& net, const NetState& state);

// Requires: inputs returned by FindInputs, as many shapes, and Input layers with one shape or one
// per top (as planning ensures).
void SetInputShapes(std::span<const InputBlob> inputs, std::span<const Shape> shapes,
                    NetParameter* net);

// Cache of plans by input shapes. Thread safety: any number of threads. Makes one plan at a time;
// cached plans remain accessible meanwhile.
class PlanCache {
 public:
  using Make = std::function<std::shared_ptr<const Plan>(std::span<const Shape> inputs)>;

  // Keeps up to `most` plans and evicts the least recently used. Requires: most >= 1.
  PlanCache(size_t most, Make make);

  // Throws what making the plan throws, and caches nothing then.
  std::shared_ptr<const Plan> Get(std::span<const Shape> inputs);

 private:
  struct Entry {
    std::vector<Shape> inputs;
    std::shared_ptr<const Plan> plan;
  };

  std::shared_ptr<const Plan> Find(std::span<const Shape> inputs);

  const size_t most_;
  const Make make_;
  std::mutex making_;
  std::mutex mutex_;          // guards the member below
  std::list<Entry> entries_;  // most recently used first
};

// A session of a model for one set of input shapes. Thread safety: one thread at a time.
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

struct Model::Parts {
  NetFile net;
  NetState state;
  ModelCard card;
  ModelOptions options;
  const Registry* registry = nullptr;
  std::vector<InputBlob> input_blobs;
  std::vector<BlobInfo> inputs;
  std::vector<BlobInfo> outputs;
  bool batches = false;
  std::shared_ptr<const Plan> plan;  // for the shapes in the text
  std::shared_ptr<const Weights> weights;
  std::unique_ptr<PlanCache> plans;
  mutable PackedWeightCache packed_weights;  // outlives the sessions
  mutable WarmSession warm;

  // Plans the text's shapes and derives all parts except the weights.
  static std::unique_ptr<Parts> Make(const NetFile& net, const ModelCard& card,
                                     const ModelOptions& options, const Registry& registry,
                                     LogSink& log);

  std::shared_ptr<const Plan> MakePlanFor(std::span<const Shape> shapes) const;
  void CheckShapes(std::span<const Shape> shapes) const;
};

}  // namespace crema
