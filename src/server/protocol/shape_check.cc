#include "server/protocol/shape_check.h"

#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {

Shape CheckedShape(const std::string& input, std::span<const int64_t> extents,
                   const RequestLimits& limits) {
  if (extents.size() > limits.axes) {
    Refuse(Cause::kBadRequest,
           StrCat("the shape of '", input, "' has more than ", limits.axes, " axes"));
  }
  int64_t count = 1;
  for (const int64_t extent : extents) {
    if (extent <= 0) {
      Refuse(Cause::kBadRequest,
             StrCat("the shape of '", input, "' has the extent ", extent, "; it is 1 at least"));
    }
    // Divided, not multiplied, so that nothing overflows.
    if (extent > limits.elements / count) {
      Refuse(Cause::kTooLarge,
             StrCat("the shape of '", input, "' has more than ", limits.elements, " elements"));
    }
    count *= extent;
  }
  return Shape(extents);
}

void ElementBudget::Take(int64_t elements) {
  if (elements > limits_.elements - taken_) {
    Refuse(Cause::kTooLarge, StrCat("more than ", limits_.elements, " elements in one request"));
  }
  taken_ += elements;
}

}  // namespace crema::server
