// Derives a deploy net from a training net.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "inference/image_input.h"

namespace crema {

struct DerivedNet {
  NetFile net;  // begins with Input layers
  // How the data layer of the only image input changes pixels; else the default.
  Preprocessing preprocessing;
  std::vector<std::string> notes;  // decisions that the user should know, one each
};

// Returns true if the net reads a data set in this state, or if a layer reads a blob that only a
// data layer of phase TRAIN makes.
bool IsTrainingNet(const NetParameter& net, const NetState& state);

// Returns the layers of `state` that the predictions of the net depend on:
// - Data layers become Input layers with the shapes of one sample. `shapes`, by blob, replaces the
//   shapes of the data set, which then need not exist. A net without data layers in this state
//   takes those of phase TRAIN.
// - Softmax replaces losses of class scores, and Sigmoid SigmoidCrossEntropyLoss. Other losses
//   leave the blob that they compare with the label. Losses of phase TRAIN count too.
// - Losses of a smaller loss_weight than another one of the same label are auxiliary: they are left
//   out, with the layers that only they need. So are metrics and the layers of labels.
// - DetectionOutput replaces MultiBoxLoss.
// Names of layers and of their parameters do not change, so that trained weights fit. Throws
// kInvalidArgument for a net without predictions, a loss without a rule, a shape of an unknown
// blob, or data of unknown shape; kUnsupported for data layers in Python without `shapes`; errors
// of opening data sets and mean files. Requires: IsTrainingNet.
DerivedNet DeriveDeployNet(const NetFile& training, const NetState& state,
                           const std::map<std::string, Shape>& shapes, const Registry& registry);

}  // namespace crema
