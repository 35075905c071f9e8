// Elements of views as the type that a layer dispatched on.
#include "layers/elements.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace crema {
namespace {

TEST(Elements, AreThoseOfTheTypeOfTheView) {
  double value = 1;
  const TensorView view(&value, Shape{1}, DType::kF64);
  EXPECT_EQ(Elements<double>(view), &value);
  EXPECT_EQ(Elements<double>(ConstTensorView(view)), &value);
  EXPECT_THROW(Elements<float>(view), Error);
  EXPECT_EQ(Elements<float>(TensorView()), nullptr);
  EXPECT_EQ(Elements<double>(ConstTensorView()), nullptr);
}

}  // namespace
}  // namespace crema
