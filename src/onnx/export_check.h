// Compares an exported ONNX file with the model that it was made from.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/model.h"
#include "inference/model_batches.h"
#include "onnx/export.h"

namespace crema {

// Runs an ONNX file on inputs and returns those of the wanted values that it has, in any order.
using OnnxRunner = std::function<std::vector<NamedOutput>(const std::string& path,
                                                          std::span<const NamedTensor> inputs,
                                                          const std::vector<std::string>& wanted)>;

// Reads the file back and runs it as a net. Throws what reading throws.
OnnxRunner ImportedRunner(const ModelOptions& options, const Registry& registry);

// Runs ONNX Runtime in a process of python3, which must have onnxruntime and numpy: outputs of the
// file only. The runner throws kUnsupported if Python or the package is missing, kDataLoss with its
// message if ONNX Runtime refuses the file.
OnnxRunner OnnxRuntimeRunner();

// The first blob that differs, in the order of the layers.
struct OnnxDifference {
  std::string blob;    // empty: all agree
  std::string reason;  // "differs by 0.3 of its largest value, where 0.0001 is allowed"
  size_t compared = 0;
};

// Runs the model and the file on `inputs`, those of the file, and compares the blobs that the
// runner returns: the largest difference must be at most `tolerance` times the largest magnitude.
// Outputs that are positions or chosen boxes may differ in a tenth of their values and rows.
OnnxDifference CompareWithOnnx(const Model& model, const OnnxExport& exported,
                               const std::string& path, std::span<const NamedTensor> inputs,
                               const OnnxRunner& runner, double tolerance);

}  // namespace crema
