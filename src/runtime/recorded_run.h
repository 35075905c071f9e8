// What replaying and recording share: a recording by names, and a net that is set up to run it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "runtime/replay.h"

namespace crema {

// By name: "blob:conv1", "param:conv1:0", "loss".
using Records = std::map<std::string, const BlobProto*>;

// Into `recording`, which must live. Throws kDataLoss if it is none.
Records ReadRecords(const NetParameter& recording);

// Whether gradients were recorded.
bool HasDiff(const BlobProto& blob);

// The net, with each Input layer in the recorded shape.
NetParameter WithRecordedShapes(const NetParameter& net, const Records& records);

struct RecordedRun {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Weights> weights;
  std::unique_ptr<Session> session;
};

// Plans `shaped`, a form of `net`, with its weights or fillers that draw by `seed`.
RecordedRun MakeRecordedRun(const ReplayNet& net, const NetParameter& shaped,
                            const Registry& registry, const PlanOptions& options,
                            ExecContext context, uint64_t seed);

// Tops of Input layers.
std::vector<std::string> InputBlobs(const Plan& plan);

// Recorded values into a view of the session, on whatever device that is.
void SetTo(const BlobProto& blob, const TensorView& view, const Session& session);

}  // namespace crema
