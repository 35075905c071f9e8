// Preprocessing of images as nodes, and the card of a model as metadata.
#pragma once

#include <string>

#include "inference/model.h"
#include "onnx/export_graph.h"
#include "onnx_model.pb.h"

namespace crema {

// Adds ((invert ? 255 - v : v) - mean) * scale to the input, which takes pixels 0..255 with red
// first, and returns the value that the net reads. Throws kInvalidArgument unless it is the only
// input (`only`) and N x C x H x W with 1 or 3 channels.
std::string ExportPreprocessing(OnnxGraphWriter* graph, const std::string& input,
                                const Shape& shape, const Preprocessing& preprocessing, bool only);

// Adds task, labels and preprocessing as metadata, those that the card has. `inside`: the graph
// computes the preprocessing.
void AddMetadata(const ModelCard& card, bool inside, onnx::ModelProto* model);

}  // namespace crema
