// Compares a run with a recording, blob by blob.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "runtime/compute_device.h"
#include "runtime/session.h"

namespace crema {

struct ReplayOptions {
  // A blob b matches its recording g if max|b - g| <= atol + rtol * max|g|.
  double rtol = 1e-4;
  double atol = 1e-5;
  bool optimize = false;  // plan as for production: only blobs that survive are compared
  int threads = 0;
  PlanOptions plan = {};  // threads, device, backward and optimize are set from the other fields
  ComputeDevice device = {};
};

// The result of one comparison.
struct ReplayLine {
  std::string what;         // "blob:conv1", "diff:conv1", "param:conv1:0", "loss"
  std::string layer;        // the layer that computes it
  double max_absolute = 0;  // largest |b - g|
  double max_relative = 0;  // that, divided by max|g|
  bool fits = false;
  // The reason of a mismatch other than values: "shape 2x3, recorded 3x2".
  std::string note = {};
};

struct ReplayResult {
  std::vector<ReplayLine> lines;          // in running order; ends with the first mismatch
  std::vector<std::string> not_compared;  // recorded, but not available in this plan
  bool fits = true;
};

// A net and the weights to run it with; `weights` may be null (fillers).
struct ReplayNet {
  const NetFile& net;
  const NetParameter* weights = nullptr;
  std::string weights_file;
};

// Sets the recorded inputs (an Input layer gets the recorded shape), runs forward and, if the
// recording has gradients, backward, and compares. docs/recordings.md describes recordings. Throws
// Error if the net cannot be planned, or for anything but a recording of this net.
ReplayResult Replay(const ReplayNet& net, const NetParameter& recording, const Registry& registry,
                    const ReplayOptions& options);

struct RecordOptions {
  bool gradients = true;  // run backward and record them
  int threads = 0;        // 0: all processors
  uint64_t seed = 1;      // of random inputs and fillers
  PlanOptions plan = {};  // threads, backward and optimize are set by Record
};

// Runs the net once, with inputs from a normal distribution or from `inputs` (a recording, may be
// null), and records all blobs, parameters, the loss, and on request all gradients.
NetParameter Record(const ReplayNet& net, const NetParameter* inputs, const Registry& registry,
                    const RecordOptions& options);

}  // namespace crema
