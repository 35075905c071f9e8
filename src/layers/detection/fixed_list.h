// Lists of fixed capacity, passed as kernel arguments.
#pragma once

#include "core/error.h"

namespace crema {

template <typename T, int kMost>
struct FixedList {
  T values[kMost];
  int count;
  void push_back(const T& value) {
    CREMA_CHECK(count < kMost);
    values[count++] = value;
  }
  const T* begin() const { return values; }
  const T* end() const { return values + count; }
};

}  // namespace crema
