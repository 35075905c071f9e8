// LabelSpecificAdd; see label_specific_add.cc.
#pragma once

#include "crema.pb.h"

namespace crema {

// Returns whether the layer changes the scores of labels in this phase.
bool AddsToLabel(const LayerParameter& param, Phase phase);

}  // namespace crema
