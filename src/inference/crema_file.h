// The bytes of a .crema file: magic, header, aligned tensors, checksum; docs/crema_file.md. What is
// in them for a net is for others to know (crema_export.h, Model::Open).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "crema_file.pb.h"

namespace crema {

// What this program writes, and the newest that it reads.
inline constexpr uint32_t kCremaFormat = 1;

// Checks all bytes, and that each tensor of the header lies within them, apart from all others.
// `path` is for messages. Throws kInvalidArgument: another kind of file, or too new; kDataLoss:
// truncated, altered, or in contradiction to itself.
CremaFileHeader ReadCremaFile(std::string_view bytes, const std::string& path);

// Where a tensor lies. Requires: a header of these bytes as ReadCremaFile gave it.
ConstTensorView TensorIn(std::string_view bytes, const StoredTensor& tensor);

Shape ShapeOf(const StoredTensor& tensor);

// Name, extents and type of what will be stored.
StoredTensor Describe(const std::string& name, const ConstTensorView& value);

// A header with the tensors that it describes, in the order of learned, recorded inputs, recorded
// outputs.
struct CremaContents {
  CremaFileHeader header;
  std::vector<ConstTensorView> tensors;
};

// Writes atomically: the name has a whole file, flushed to the disk, or what it had before. `check`
// is called with the path of the file just before it gets its name; what it throws leaves all as it
// was. Throws kIoFailure.
void WriteCremaFile(CremaContents contents, const std::string& path,
                    const std::function<void(const std::string& path)>& check);

}  // namespace crema
