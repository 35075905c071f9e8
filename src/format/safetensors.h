// .safetensors: a JSON header with names, types and places, then the elements.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "format/state_dict.h"
#include "format/tensor_files.h"

namespace crema {

// Most bytes of the header, as in the format's own reader.
inline constexpr uint64_t kMostSafetensorsHeader = 100'000'000;

// Returns true if a file of `size` bytes that begins so can be of this format.
bool LooksLikeSafetensors(std::string_view start, uint64_t size);

// Throws kDataLoss for a header that is damaged, and for elements outside of the file, that overlap
// or leave gaps; kUnsupported for element types of less than a byte or without an f32 (F8_E4M3).
std::unique_ptr<StateDict> OpenSafetensors(const std::string& path);

// Writes f32, f64, f16, bf16, u8, i32 or i64 tensors, atomically, with metadata {"format": "pt"} as
// PyTorch's library asks. Equal tensors give equal bytes. Throws kInvalidArgument for two equal
// names, kIoFailure.
void WriteSafetensors(const std::string& path, std::span<const NamedArrayView> tensors);

}  // namespace crema
