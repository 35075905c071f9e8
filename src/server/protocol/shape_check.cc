#include "server/protocol/shape_check.h"

#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {

Shape CheckedShape(const std::string& input, std::span<const int64_t> dims,
                   const RequestLimits& limits) {
  if (dims.size() > limits.axes) {
    Refuse(Cause::kBadRequest,
           StrCat("the shape of '", input, "' has more than ", limits.axes, " axes"));
  }
  int64_t count = 1;
  for (const int64_t dim : dims) {
    if (dim <= 0) {
      Refuse(Cause::kBadRequest,
             StrCat("the shape of '", input, "' has the dimension ", dim, "; it is 1 at least"));
    }
    // Divides instead of multiplying, to avoid overflow.
    if (dim > limits.elements / count) {
      Refuse(Cause::kTooLarge,
             StrCat("the shape of '", input, "' has more than ", limits.elements, " elements"));
    }
    count *= dim;
  }
  return Shape(dims);
}

void ElementBudget::Take(int64_t elements) {
  if (elements > limits_.elements - taken_) {
    Refuse(Cause::kTooLarge, StrCat("more than ", limits_.elements, " elements in one request"));
  }
  taken_ += elements;
}

}  // namespace crema::server
