// Runs a net over its data set and averages its outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/log.h"
#include "crema.pb.h"
#include "runtime/output_means.h"
#include "runtime/session.h"

namespace crema {

struct Evaluation {
  std::vector<EvaluatedOutput> outputs;  // means, weighted by samples
  std::vector<std::string> left_out;     // outputs whose size changes from batch to batch
  double loss = 0;                       // total loss, the same
  int64_t samples = 0;
  int64_t batches = 0;
};

// One pass over a source: `samples` of them, in batches of `batch`.
struct DataEpoch {
  int64_t samples = 0;
  int64_t batch = 0;
};

// Returns the samples of the first layer that has no inputs; at least 1.
int64_t FirstBatch(const Plan& plan);
// Returns the pass over the finite data sets of the layers, which must all have the same size.
// Throws kInvalidArgument if they differ, or if there are none; `advice` ends the message: "say how
// many batches with --iterations".
DataEpoch EpochOf(const Session& session, const std::string& advice);

// A rank of a run, and the number of its ranks.
struct RankPlace {
  int64_t rank = 0;
  int64_t ranks = 1;
};
// The part of a sequence of batches that one of several ranks runs: from first until before end.
struct BatchPart {
  int64_t first = 0;
  int64_t end = 0;
};
inline BatchPart PartOf(int64_t batches, const RankPlace& own) {
  return {batches * own.rank / own.ranks, batches * (own.rank + 1) / own.ranks};
}
// Returns true if a session can start at any batch of its source, which has an end. Throws if the
// source cannot be read.
bool CanMoveByBatches(const Session& session);
// Moves the source and the random draws of the session on, as that many batches do. Requires
// CanMoveByBatches, unless `batches` is 0.
void MoveByBatches(int64_t batches, Session* session);

// Thread safety: one thread.
class EpochRunner {
 public:
  struct Options {
    // Opens the same net with other batch sizes over the same weights.
    std::function<std::unique_ptr<Session>(const NetParameter&)> open;
    // Called after each batch with the number of its samples; may be empty.
    std::function<void(const Session&, int64_t)> on_batch;
    std::string advice;      // see EpochOf
    LogSink* log = nullptr;  // receives warnings of data layers; may be null
  };
  // `net` is the text of the session; both must outlive this.
  EpochRunner(const NetParameter& net, Session* session, Options options)
      : net_(net), session_(session), options_(std::move(options)) {}

  // Runs that many whole batches, from the current position of the source.
  Evaluation RunBatches(int64_t batches);
  // Runs every sample of the source exactly once, from the current position; the last batch may be
  // smaller. Its session is reused by later calls. Of several ranks, each runs its part of
  // them, and CanMoveByBatches is required.
  Evaluation RunEpoch(const RankPlace& own = {});

 private:
  // `smaller`: the plan of rest_; null: there is none.
  void Start(int64_t batch, const Plan* smaller);
  void RunBatch(Session* session, int64_t batch);
  bool HasRowOfNumbers(int64_t batch) const;
  const Plan* TrySmaller();
  Session* Smaller(int64_t samples);
  void RunRest(int64_t rest);
  Evaluation Finish();

  const NetParameter& net_;
  Session* session_;
  Options options_;
  Evaluation result_;
  OutputMeans means_;
  std::unique_ptr<Session> rest_;  // for the smaller last batch
  int64_t rest_samples_ = 0;
};

}  // namespace crema
