// Upgrades old nets: one function per pass, in the order of UpgradeNet.
#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/source_map.h"

namespace crema {

// Applies all upgrades of a net read from text or binary. The result has only `layer` and no input
// fields. Updates `source` to the new field paths. Reports losses in `warnings`. Throws
// kInvalidArgument, with all problems, for nets that Caffe refuses.
void UpgradeNet(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings);

// Upgrades the first format (`layers { layer {} }`) to the second.
void UpgradeV0(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings);
// Second format: moves scale, mean_file, crop_size, mirror of data layers to transform_param.
void UpgradeDataTransforms(NetParameter* net, SourceMap* source);
// Upgrades the second format (`layers {}`) to the present one (`layer {}`).
void UpgradeV1(NetParameter* net, SourceMap* source);
// Returns the type "Convolution" for the second format's CONVOLUTION; empty for other names.
std::string TypeNamedByV1(const std::string& name);
// Replaces `input`, `input_shape`, `input_dim` by a first layer "input" of type Input.
void UpgradeInputs(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings);
// Writes layers of Caffe's forks with layers of Crema: one becomes one or a few. Others that the
// forks have stay, and are errors when the graph is built. Reports differences in `warnings`.
void UpgradeForkLayers(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings);
// Sets the multipliers of BatchNorm's three running statistics to 0: they are not trained.
void UpgradeBatchNorm(NetParameter* net);
// Replaces the Python layer `rpn.proposal_layer` of py-faster-rcnn by Proposal, which computes the
// same in phase TEST, with a warning. Leaves nets with other Python layers, as those for training
// are, and layers of phase TRAIN.
void UpgradeProposals(NetParameter* net, const SourceMap& source, std::vector<Problem>* warnings);

// Replaces solver_type by type. Throws kInvalidArgument if both are set.
void UpgradeSolver(SolverParameter* solver, SourceMap* source);

}  // namespace crema
