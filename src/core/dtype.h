// Element types, and the dispatch on them.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

#include "core/error.h"

namespace crema {

enum class DType { kF32, kF64, kF16, kBF16, kU8, kI32, kI64 };

size_t SizeOf(DType dtype);  // bytes per element
std::string_view ToString(DType dtype);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::kF32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::kF64> {};
template <>
struct DTypeOf<unsigned char> : std::integral_constant<DType, DType::kU8> {};
template <>
struct DTypeOf<int> : std::integral_constant<DType, DType::kI32> {};

// Calls `body(T{})` with T = float or double, the only types with CPU kernels.
template <typename Body>
decltype(auto) DispatchFloat(DType dtype, Body&& body) {
  if (dtype == DType::kF32) return body(float{});
  CREMA_CHECK(dtype == DType::kF64);
  return body(double{});
}

}  // namespace crema
