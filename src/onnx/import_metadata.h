// The card of a model in the metadata of an ONNX file that Crema wrote.
#pragma once

#include <string>
#include <vector>

#include "inference/model.h"
#include "onnx_model.pb.h"

namespace crema {

// Returns task, labels and preprocessing as AddMetadata writes them: for a graph that computes the
// preprocessing, that of pixels 0..255 with red first. Files of other programs, whose metadata may
// have the same names, have an empty card. Adds a note for an entry that cannot be used.
ModelCard ReadMetadata(const onnx::ModelProto& model, std::vector<std::string>* notes);

}  // namespace crema
