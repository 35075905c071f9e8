#include "core/dtype.h"

namespace crema {
namespace {

// By DType.
constexpr struct {
  size_t size;
  std::string_view name;
} kTypes[] = {{4, "f32"}, {8, "f64"}, {2, "f16"}, {2, "bf16"}, {1, "u8"}, {4, "i32"}, {8, "i64"}};

}  // namespace

size_t SizeOf(DType dtype) { return kTypes[static_cast<size_t>(dtype)].size; }

std::string_view ToString(DType dtype) { return kTypes[static_cast<size_t>(dtype)].name; }

}  // namespace crema
