#include "format/stored_elements.h"

#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/half.h"

namespace crema {
namespace {

static_assert(std::endian::native == std::endian::little);

struct TypeFacts {
  std::string_view name;
  size_t size;
};

constexpr std::array<TypeFacts, 13> kElementTypes = {{{"F64", 8},
                                                      {"F32", 4},
                                                      {"F16", 2},
                                                      {"BF16", 2},
                                                      {"I64", 8},
                                                      {"I32", 4},
                                                      {"I16", 2},
                                                      {"I8", 1},
                                                      {"U64", 8},
                                                      {"U32", 4},
                                                      {"U16", 2},
                                                      {"U8", 1},
                                                      {"BOOL", 1}}};  // by ElementType

// Calls `body(place)` for each element in row-major order.
template <typename Body>
void ForEachPlace(const StridedElements& from, const Body& body) {
  const int axes = from.shape.axes();
  std::vector<int64_t> at(static_cast<size_t>(axes));
  auto place = static_cast<int64_t>(from.offset);
  for (int64_t i = 0, n = from.shape.count(); i < n; ++i) {
    body(static_cast<size_t>(place));
    for (int axis = axes - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      place += from.strides[a];
      if (++at[a] < from.shape[axis]) break;
      place -= from.strides[a] * from.shape[axis];
      at[a] = 0;
    }
  }
}

template <typename Stored, typename Convert>
void Copy(const StridedElements& from, std::string_view bytes, float* to, const Convert& convert) {
  ForEachPlace(from, [&](size_t place) {
    Stored value;
    std::memcpy(&value, bytes.data() + place * sizeof(Stored), sizeof(Stored));
    *to++ = convert(value);
  });
}

template <typename Stored>
void CopyNumbers(const StridedElements& from, std::string_view bytes, float* to) {
  Copy<Stored>(from, bytes, to, [](Stored value) { return static_cast<float>(value); });
}

}  // namespace

size_t SizeOf(ElementType type) { return kElementTypes[static_cast<size_t>(type)].size; }

std::string_view ToString(ElementType type) {
  return kElementTypes[static_cast<size_t>(type)].name;
}

std::optional<ElementType> ElementTypeOf(std::string_view safetensors_name) {
  for (size_t i = 0; i < kElementTypes.size(); ++i) {
    if (kElementTypes[i].name == safetensors_name) return static_cast<ElementType>(i);
  }
  return std::nullopt;
}

Tensor ToF32(const StridedElements& elements, std::string_view bytes) {
  Tensor tensor(elements.shape, DType::kF32);
  float* to = tensor.view().data<float>();
  const auto bf16 = [](uint16_t bits) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  };
  switch (elements.type) {
    case ElementType::kF64:
      CopyNumbers<double>(elements, bytes, to);
      break;
    case ElementType::kF32:
      CopyNumbers<float>(elements, bytes, to);
      break;
    case ElementType::kF16:
      Copy<uint16_t>(elements, bytes, to, HalfToFloat);
      break;
    case ElementType::kBF16:
      Copy<uint16_t>(elements, bytes, to, bf16);
      break;
    case ElementType::kI64:
      CopyNumbers<int64_t>(elements, bytes, to);
      break;
    case ElementType::kI32:
      CopyNumbers<int32_t>(elements, bytes, to);
      break;
    case ElementType::kI16:
      CopyNumbers<int16_t>(elements, bytes, to);
      break;
    case ElementType::kI8:
      CopyNumbers<int8_t>(elements, bytes, to);
      break;
    case ElementType::kU64:
      CopyNumbers<uint64_t>(elements, bytes, to);
      break;
    case ElementType::kU32:
      CopyNumbers<uint32_t>(elements, bytes, to);
      break;
    case ElementType::kU16:
      CopyNumbers<uint16_t>(elements, bytes, to);
      break;
    case ElementType::kU8:
    case ElementType::kBool:
      CopyNumbers<uint8_t>(elements, bytes, to);
      break;
  }
  return tensor;
}

}  // namespace crema
