// Reads the nets of a run from a solver text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/field_setting.h"
#include "format/prototxt.h"

namespace crema {

// One net of a run, with the state it is built for.
struct NetOfRun {
  NetFile file;
  NetState state;
};

struct RunConfig {
  SolverFile solver;
  NetOfRun train;
  std::vector<NetOfRun> tests;
  std::vector<int> test_iterations;  // by test net; 0: every sample once
};

// Reads the nets that a solver names (paths are relative to the working folder, as in Caffe) and
// checks every field that does not need the nets built: policy, intervals, unknown type.
// Applies those of `settings` that belong to nets to each net that has the layer. Throws Error with
// all problems found.
RunConfig MakeRunConfig(SolverFile solver, std::span<const FieldSetting> settings = {});

// Returns a warning for each field of a fork that this version does not support, and each that the
// lr_policy or the type of this solver does not read, if it is set to something other than its
// default; where.field names it.
std::vector<Problem> WarnAboutUnreadFields(const SolverParameter& param);

}  // namespace crema
