// import m.onnx -o DIR: an ONNX model as a net of Crema.
#pragma once

#include <string>

namespace crema::tools {

// Converts an ONNX model and writes folder/deploy.prototxt and folder/weights.caffemodel, from 2
// GiB on folder/weights.caffemodel.h5, which holds no layer names with a slash. Prints a summary.
// On failure nothing is left over. Throws what ImportOnnx throws; kInvalidArgument if the files
// exist and --force is not given, or for a malformed --shape.
int ImportOnnxModel(const std::string& model, const std::string& folder);

}  // namespace crema::tools
