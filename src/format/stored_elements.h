// Element types of the files of other programs, converted to f32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/shape.h"
#include "core/tensor.h"

namespace crema {

enum class ElementType : uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

size_t SizeOf(ElementType type);  // bytes per element
// Returns the name that safetensors uses: "F32", "BF16", "BOOL".
std::string_view ToString(ElementType type);
std::optional<ElementType> ElementTypeOf(std::string_view safetensors_name);

// Elements at `offset`, in elements, with a stride for each axis. Little-endian bytes.
struct StridedElements {
  ElementType type = ElementType::kF32;
  Shape shape;
  uint64_t offset = 0;
  std::span<const int64_t> strides;
};

// Returns the elements, dense, as f32. Numbers without an f32 are rounded to the nearest one.
// Requires: all elements are in `bytes`.
Tensor ToF32(const StridedElements& elements, std::string_view bytes);

}  // namespace crema
