#include "core/shape.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace crema {

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > kMaxAxes) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("a shape has ", dims.size(), " axes; at most ", int{kMaxAxes}, " are possible"));
  }
  // Also limits the product of the other dimensions if one is 0: layers multiply some of them
  // alone.
  int64_t others = 1;
  for (int64_t dim : dims) {
    if (dim < 0)
      Fail(ErrorCode::kInvalidArgument, StrCat("negative dimension ", dim, " in a shape"));
    if (dim > std::numeric_limits<int32_t>::max() / others) {
      Fail(ErrorCode::kInvalidArgument,
           "a blob of more than 2147483647 elements is not possible; use a smaller shape or batch");
    }
    others *= std::max<int64_t>(dim, 1);
    count_ *= dim;
    dims_[static_cast<size_t>(axes_++)] = dim;
  }
}

int64_t Shape::count(int begin, int end) const {
  CREMA_CHECK(0 <= begin && begin <= end && end <= axes_);
  int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) product *= (*this)[axis];
  return product;
}

int Shape::CanonicalAxis(int64_t axis) const {
  if (axis < -axes_ || axis >= axes_) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("axis ", axis, " is outside a blob of shape ", ToString(*this),
                " (allowed: ", -axes_, " to ", axes_ - 1, ")"));
  }
  return static_cast<int>(axis < 0 ? axis + axes_ : axis);
}

Shape Shape::With(int axis, int64_t size) const {
  std::vector<int64_t> dims(this->dims().begin(), this->dims().end());
  dims.at(static_cast<size_t>(axis)) = size;
  return Shape(std::span<const int64_t>(dims));
}

bool operator==(const Shape& a, const Shape& b) { return std::ranges::equal(a.dims(), b.dims()); }

std::string ToString(const Shape& shape) {
  if (shape.axes() == 0) return "scalar";
  std::string text;
  for (int64_t dim : shape.dims()) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

}  // namespace crema
