// The .crema file format: magic, header, aligned tensors, checksum; see docs/crema_file.md. Does
// not interpret the net (see crema_export.h, Model::Open).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "crema_file.pb.h"

namespace crema {

// The newest format that this program reads. It writes the oldest that has all that a file needs.
inline constexpr uint32_t kCremaFormat = 4;

// Verifies all bytes, and that the tensors of the header are inside the file and do not overlap.
// `path` is for messages. Throws kInvalidArgument: another format, or too new; kDataLoss:
// truncated, altered, or inconsistent.
CremaFileHeader ReadCremaFile(std::string_view bytes, const std::string& path);

// Returns a view of a tensor. Requires: a header that ReadCremaFile returned for these bytes.
ConstTensorView TensorIn(std::string_view bytes, const StoredTensor& tensor);

// The same for weights: those of type I8 are appended to `converted` as floats.
ConstTensorView WeightIn(std::string_view bytes, const StoredTensor& tensor,
                         std::deque<Tensor>* converted);

Shape ShapeOf(const StoredTensor& tensor);

// Describes a tensor to be stored: name, shape and type.
StoredTensor Describe(const std::string& name, const ConstTensorView& value);

// A header and its tensors: weights, recorded inputs, recorded outputs.
struct CremaContents {
  CremaFileHeader header;
  std::vector<ConstTensorView> tensors;
};

// Writes atomically: the file is complete and on disk, or unchanged. Calls `check` with the path of
// the temporary file before renaming it; if that throws, nothing changes. Throws kIoFailure.
void WriteCremaFile(CremaContents contents, const std::string& path,
                    const std::function<void(const std::string& path)>& check);

}  // namespace crema
