// Writes a model as an ONNX file.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "inference/model.h"
#include "onnx/export_graph.h"
#include "onnx_model.pb.h"

namespace crema {

constexpr int kLeastOnnxOpset = 13;
constexpr int kMostOnnxOpset = 23;

struct OnnxExportOptions {
  int opset = 17;  // kLeastOnnxOpset to kMostOnnxOpset
  // Matrices and filters as float16, each followed by a Cast to float: the net computes in single
  // precision.
  bool half_weights = false;
  // The preprocessing of the card becomes nodes: the input takes pixels 0..255, red first.
  bool preprocessing = false;
};

// A blob of the net, and the value of the graph that holds it.
struct ExportedBlob {
  std::string blob;
  std::string value;
};

// A model in the form of ONNX. Refers to the weights of the model, which must outlive it.
struct OnnxExport {
  onnx::ModelProto model;  // without initializers
  std::vector<OnnxConstant> constants;
  // The last value of each blob, in the order of the layers; without inputs and blobs whose shape
  // is known only when the net runs. Empty for an int8 net, whose outputs alone are comparable.
  std::vector<ExportedBlob> blobs;
  std::vector<ExportedBlob> outputs;  // of the net
  std::vector<std::string> notes;     // for the user: why the batch is fixed
  bool batches = false;               // axis 0 of inputs and outputs is N
  bool preprocessing = false;         // the graph computes it
};

// Returns the deploy net of a model, with shapes as in the text of the net. Names of blobs and
// layers are kept: a blob that layers change in place has its name after the last of them, and
// "blob/layer" before. Int8 layers get QuantizeLinear and DequantizeLinear by their ranges. Throws
// kUnsupported with every layer that ONNX cannot express and the reasons; kInvalidArgument for an
// opset out of range, or preprocessing of a model that takes no images.
OnnxExport ToOnnx(const Model& model, const OnnxExportOptions& options);

// Writes the file atomically. The weights go to `path`.data if `external_data` is set or the file
// would have 2 GiB or more; that file is renamed first. Before renaming, calls `check` with the
// path of a temporary file; if that throws, nothing changes. Removes temporary files that killed
// exports left. Throws kIoFailure.
void WriteOnnx(const OnnxExport& exported, const std::string& path, bool external_data,
               const std::function<void(const std::string& path)>& check);

}  // namespace crema
