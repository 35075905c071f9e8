#include "inference/crema_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/seal.h"
#include "format/sniff.h"
#include "inference/crema_layout.h"
#include "quantization/byte_weights.h"

namespace crema {
namespace {

using namespace crema_layout;  // NOLINT: of this file's own kind

static_assert(std::endian::native == std::endian::little, "tensors are mapped as stored");

template <typename T>
T NumberAt(std::string_view bytes, size_t at) {
  T value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

[[noreturn]] void FailDamaged(const std::string& path, std::string why) {
  Fail(ErrorCode::kDataLoss, std::move(why), {.file = path});
}

[[noreturn]] void FailContradiction(const std::string& path, const std::string& why) {
  FailDamaged(path, StrCat("the header of this model file contradicts itself: ", why));
}

void CheckKind(std::string_view bytes, const std::string& path) {
  const std::string_view start = bytes.substr(0, kMagic.size());
  if (start != kMagic.substr(0, start.size()) || start.empty()) {
    constexpr const char* kExpected = "a model file of `deploy export`";
    const Content content = Sniff(bytes);
    const bool is_plain = content == Content::kText || content == Content::kBinary;
    Fail(ErrorCode::kInvalidArgument,
         is_plain ? StrCat("is not ", kExpected) : DescribeWrongContent(content, kExpected),
         {.file = path});
  }
  if (bytes.size() < kHeaderAt) {
    FailDamaged(path, StrCat("is truncated: it ends after ", bytes.size(), " bytes"));
  }
  const auto format = NumberAt<uint32_t>(bytes, kFormatAt);
  if (format <= kCremaFormat) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("is a model file of format ", format, "; this version of Crema reads up to ",
              kCremaFormat, ": use a newer one, or export the model again"),
       {.file = path});
}

void CheckWhole(std::string_view bytes, const std::string& path) {
  const auto size = NumberAt<uint64_t>(bytes, kSizeAt);
  if (bytes.size() < size) {
    FailDamaged(path, StrCat("is truncated: the file has ", bytes.size(), " of ", size, " bytes"));
  }
  const uint32_t crc =
      Crc32(bytes.substr(kChecksumAt + sizeof(uint32_t)), Crc32(bytes.substr(0, kChecksumAt)));
  if (bytes.size() > size || crc != NumberAt<uint32_t>(bytes, kChecksumAt)) {
    FailDamaged(path, "was altered since it was written: its checksum does not fit");
  }
  if (NumberAt<uint32_t>(bytes, kFormatAt) == 0) FailContradiction(path, "format 0");
}

DType TypeOf(const StoredTensor& tensor) {
  return tensor.type() == StoredTensor::F32 ? DType::kF32 : DType::kU8;
}

// Throws if a tensor of type I8 has not one step for each output.
void CheckSteps(const StoredTensor& tensor, const Shape& shape, const std::string& name,
                const std::string& path) {
  const uint32_t axis = tensor.step_axis();
  if (axis >= static_cast<uint32_t>(shape.axes()) ||
      tensor.step_size() != shape[static_cast<int>(axis)]) {
    FailContradiction(path, StrCat(name, " of ", ToString(shape), " has ", tensor.step_size(),
                                   " steps on axis ", axis));
  }
}

// Throws if the entry of the tensor is invalid.
void CheckTensor(const StoredTensor& tensor, uint64_t first, uint64_t size,
                 const std::string& path) {
  const std::string name = StrCat("tensor '", tensor.name(), "'");
  Shape shape;
  try {
    shape = ShapeOf(tensor);
  } catch (const Error& error) {
    FailContradiction(path, StrCat(name, ": ", error.problems().front().message));
  }
  const auto bytes = static_cast<uint64_t>(shape.count()) * SizeOf(TypeOf(tensor));
  if (tensor.bytes() != bytes) {
    FailContradiction(path, StrCat(name, " of ", ToString(shape), " has ", tensor.bytes(),
                                   " bytes instead of ", bytes));
  }
  if (tensor.type() == StoredTensor::I8) CheckSteps(tensor, shape, name, path);
  const uint64_t offset = tensor.offset();
  if (offset % kAlignment != 0 || offset < first || offset > size || bytes > size - offset) {
    FailContradiction(path, StrCat(name, " lies at ", offset, ", which is outside or not a ",
                                   "multiple of ", kAlignment));
  }
}

void CheckTensors(const CremaFileHeader& header, uint64_t first, uint64_t size,
                  const std::string& path) {
  std::vector<const StoredTensor*> tensors;
  ForEachTensor(header, [&](const StoredTensor& tensor) {
    CheckTensor(tensor, first, size, path);
    tensors.push_back(&tensor);
  });
  for (const auto* recorded : {&header.recording().input(), &header.recording().output()}) {
    for (const StoredTensor& tensor : *recorded) {
      if (tensor.type() != StoredTensor::I8) continue;
      FailContradiction(path, StrCat("tensor '", tensor.name(), "' of the recording has steps"));
    }
  }
  std::ranges::sort(tensors, {},
                    [](const StoredTensor* t) { return std::pair(t->offset(), t->bytes()); });
  for (size_t i = 1; i < tensors.size(); ++i) {
    const StoredTensor& before = *tensors[i - 1];
    if (before.offset() + before.bytes() <= tensors[i]->offset()) continue;
    FailContradiction(
        path, StrCat("tensors '", before.name(), "' and '", tensors[i]->name(), "' overlap"));
  }
}

}  // namespace

Shape ShapeOf(const StoredTensor& tensor) {
  return Shape(
      std::span<const int64_t>(tensor.dim().data(), static_cast<size_t>(tensor.dim_size())));
}

StoredTensor Describe(const std::string& name, const ConstTensorView& value) {
  CREMA_CHECK(value.dtype() == DType::kF32 || value.dtype() == DType::kU8);
  StoredTensor tensor;
  tensor.set_name(name);
  for (const int64_t dim : value.shape().dims()) tensor.add_dim(dim);
  tensor.set_type(value.dtype() == DType::kU8 ? StoredTensor::U8 : StoredTensor::F32);
  tensor.set_bytes(value.bytes());
  return tensor;
}

CremaFileHeader ReadCremaFile(std::string_view bytes, const std::string& path) {
  CheckKind(bytes, path);
  CheckWhole(bytes, path);
  const auto header_bytes = NumberAt<uint64_t>(bytes, kHeaderSizeAt);
  if (header_bytes > std::min<uint64_t>(bytes.size() - kHeaderAt, kMostHeaderBytes)) {
    FailContradiction(path, StrCat(header_bytes, " bytes of header in a file of ", bytes.size()));
  }
  CremaFileHeader header;
  if (!header.ParseFromArray(bytes.data() + kHeaderAt, static_cast<int>(header_bytes))) {
    FailContradiction(path, "it is not a message of its schema");
  }
  CheckTensors(header, Aligned(kHeaderAt + header_bytes), bytes.size(), path);
  return header;
}

ConstTensorView TensorIn(std::string_view bytes, const StoredTensor& tensor) {
  return {bytes.data() + tensor.offset(), ShapeOf(tensor), TypeOf(tensor)};
}

ConstTensorView WeightIn(std::string_view bytes, const StoredTensor& tensor,
                         std::deque<Tensor>* converted) {
  const ConstTensorView stored = TensorIn(bytes, tensor);
  if (tensor.type() != StoredTensor::I8) return stored;
  Tensor& floats = converted->emplace_back(stored.shape(), DType::kF32);
  WeightsFromBytes(stored.shape(), static_cast<int>(tensor.step_axis()),
                   static_cast<const int8_t*>(stored.raw()),
                   {tensor.step().data(), static_cast<size_t>(tensor.step_size())},
                   floats.view().data<float>());
  return std::as_const(floats).view();
}

}  // namespace crema
