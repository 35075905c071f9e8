// Rules of the operators of ONNX: attributes, and the number and kinds of their inputs.
#pragma once

#include <string>
#include <vector>

#include "onnx/import_graph.h"

namespace crema {

// Returns why a node of ONNX's own domain is not one of its operator: an attribute that the
// operator of this opset lacks, too many inputs, or an input of another kind (floats, whole
// numbers, booleans); else an empty text. `types` has those of the inputs
// (onnx::TensorProto::DataType), 0 for one that is unknown or missing. Operators that no converter
// reads pass. Thread safety: any.
std::string WhyNoOperator(const OnnxNode& node, const std::vector<int>& types);

}  // namespace crema
