// Shared by replaying and recording: access to a recording by names, and a net set up to run it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "runtime/replay.h"

namespace crema {

// Maps names such as "blob:conv1", "param:conv1:0", "loss".
using Records = std::map<std::string, const BlobProto*>;

// Refers to `recording`, which must outlive the result. Throws kDataLoss for anything else.
Records ReadRecords(const NetParameter& recording);

// Returns true if gradients were recorded.
bool HasDiff(const BlobProto& blob);

// Returns the net with the recorded shape of each Input layer.
NetParameter WithRecordedShapes(const NetParameter& net, const Records& records);

struct RecordedRun {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<Weights> weights;
  std::unique_ptr<Session> session;
};

// Plans `shaped`, a form of `net`, with its weights, or with fillers seeded by `seed`.
RecordedRun MakeRecordedRun(const ReplayNet& net, const NetParameter& shaped,
                            const Registry& registry, const PlanOptions& options,
                            ExecContext context, uint64_t seed);

// Returns the tops of Input layers.
std::vector<std::string> InputBlobs(const Plan& plan);

// Copies recorded values to a view of the session, on any device.
void SetTo(const BlobProto& blob, const TensorView& view, const Session& session);

}  // namespace crema
