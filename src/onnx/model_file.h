// Reads ONNX files: the message, and the values of its tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "onnx_model.pb.h"

namespace crema {

// Values of a tensor. Copies share the values. Thread safety: const.
struct OnnxTensor {
  int type = onnx::TensorProto::FLOAT;  // onnx::TensorProto::DataType
  std::vector<int64_t> dims;            // none: a scalar
  // One of the two, in row-major order: `floats` for FLOAT, FLOAT16, BFLOAT16 and DOUBLE (rounded
  // to single precision), `ints` for whole numbers and BOOL (0 or 1; UINT64 modulo 2^64).
  std::shared_ptr<const std::vector<float>> floats;
  std::shared_ptr<const std::vector<int64_t>> ints;

  bool IsFloat() const { return floats != nullptr; }
  int64_t count() const {
    return static_cast<int64_t>(floats != nullptr ? floats->size() : ints->size());
  }
};

// Returns a tensor of the given values. Requires: as many as the dimensions say.
OnnxTensor MakeFloats(std::vector<int64_t> dims, std::vector<float> values,
                      int type = onnx::TensorProto::FLOAT);
OnnxTensor MakeInts(std::vector<int64_t> dims, std::vector<int64_t> values,
                    int type = onnx::TensorProto::INT64);

// Returns true for FLOAT, FLOAT16, BFLOAT16, DOUBLE and the floats of 8 and 4 bits.
bool IsFloatType(int type);
// Returns true for floats, whole numbers and BOOL.
bool IsNumberType(int type);
// Returns "float32", "int64", ..., or "type 99".
std::string OnnxTypeName(int type);

inline constexpr int kOldestOpset = 1;
inline constexpr int kNewestOpset = 28;

// Most axes of a tensor, nodes of a file, bytes of a name, and nested graphs.
inline constexpr int kMostOnnxAxes = 32;
inline constexpr int kMostOnnxNodes = 1'000'000;
inline constexpr int kMostOnnxNameBytes = 4096;
inline constexpr int kMostOnnxDepth = 16;

// Reads a model of opsets 1 to 28, of up to 2 GiB without its external data. Control characters in
// names become \x0a. Throws what RandomFile throws; kDataLoss for a file that is damaged, truncated
// or no ONNX model, or is beyond the limits above; kUnsupported for other opsets.
onnx::ModelProto ReadOnnxModel(const std::string& path);
// The same for the bytes of a file; `path` is for messages.
onnx::ModelProto ParseOnnxModel(const std::string& bytes, const std::string& path);

// Returns the values of a tensor of the model at `model_path`. External data must be in a regular
// file in the folder of the model or below; links out of it are refused. Throws kDataLoss if the
// number of values does not fit the dimensions; kUnsupported for strings, complex numbers, 8-bit
// floats and types of 4 bits and less; errors of files name the tensor.
OnnxTensor ReadOnnxTensor(const onnx::TensorProto& tensor, const std::string& model_path);

// Returns a sparse tensor as a dense one. Throws like ReadOnnxTensor; kDataLoss for indices that
// are outside. Takes indices in any order.
OnnxTensor ReadOnnxSparse(const onnx::SparseTensorProto& sparse, const std::string& model_path);

}  // namespace crema
