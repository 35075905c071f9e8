// NumPy's arrays: the bytes of a .npy file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace crema {

// Versions 1 to 3. Element types: f2, f4, f8, u1, i4, i8, and bool, which becomes u8; big endian
// and Fortran order are turned. Throws kDataLoss for what is no whole .npy file, kUnsupported for
// other element types (`name` begins the message). Allocates no more than `bytes` holds.
Tensor ParseNpy(std::string_view bytes, const std::string& name);

// Most bytes that come before the values.
inline constexpr size_t kMostNpyStart = (1 << 20) + 12;

// Throws what ParseNpy would throw for a file of `bytes` bytes that begins with `start`, which is
// whole or of kMostNpyStart bytes, but for the values.
void CheckNpyStart(std::string_view start, uint64_t bytes, const std::string& name);

// Version 1, C order. Throws kUnsupported for bfloat16, which NumPy does not know.
std::string FormatNpy(const ConstTensorView& tensor);

}  // namespace crema
