// NumPy arrays: the bytes of a .npy file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace crema {

// Supports versions 1 to 3 and the element types f2, f4, f8, u1, i4, i8, and bool, which becomes
// u8; converts big endian and Fortran order. Throws kDataLoss for a malformed or truncated file,
// kUnsupported for other element types; messages begin with `name`. Allocates no more than the size
// of `bytes`.
Tensor ParseNpy(std::string_view bytes, const std::string& name);

// Most bytes that may precede the values.
inline constexpr size_t kMostNpyStart = (1 << 20) + 12;

// Throws like ParseNpy for a file of `bytes` bytes, without reading its values. `start` is the
// whole file or its first kMostNpyStart bytes.
void CheckNpyStart(std::string_view start, uint64_t bytes, const std::string& name);

// Writes version 1, C order. Throws kUnsupported for bfloat16, which NumPy lacks.
std::string FormatNpy(const ConstTensorView& tensor);

}  // namespace crema
