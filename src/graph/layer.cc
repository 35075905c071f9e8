#include "graph/layer.h"

#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {

void Layer::Backward(const BackwardArgs&) const {
  Fail(ErrorCode::kUnsupported, StrCat("a layer of type ", param_.type(), " has no gradient"),
       {.layer = param_.name()});
}

void FailField(const Layer& layer, std::string field, std::string message) {
  Where where{.layer = layer.param().name()};
  where.field = std::move(field);
  Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(where));
}

void FailInputs(const Layer& layer, std::string message) {
  Where where{.layer = layer.param().name()};
  where.field = "bottom";
  Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(where));
}

}  // namespace crema
