// Old nets become new ones: one function a pass, in the order in which UpgradeNet runs them.
#pragma once

#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/source_map.h"

namespace crema {

// Everything that reading a net, from text or binary, does to it; afterwards it has only `layer`
// and no input fields. `source` learns where the fields went. What is lost on the way is reported
// in `warnings`. Throws kInvalidArgument, with all problems, for what Caffe refuses.
void UpgradeNet(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings);

// First format (`layers { layer {} }`) to the second.
void UpgradeV0(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings);
// Second format: scale, mean_file, crop_size, mirror of data layers move to transform_param.
void UpgradeDataTransforms(NetParameter* net, SourceMap* source);
// Second format (`layers {}`) to the present one (`layer {}`).
void UpgradeV1(NetParameter* net, SourceMap* source);
// `input`, `input_shape`, `input_dim` become one layer "input" of type Input, placed first.
void UpgradeInputs(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings);
// The three statistics of BatchNorm are never learned: their multipliers become 0.
void UpgradeBatchNorm(NetParameter* net);

// solver_type becomes type. Throws kInvalidArgument if both are set.
void UpgradeSolver(SolverParameter* solver, SourceMap* source);

}  // namespace crema
