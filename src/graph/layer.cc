#include "graph/layer.h"

#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {

Filler::Filler() : Filler(FillerParameter::default_instance()) {}

Filler::Filler(const FillerParameter& param)
    : param_(std::make_shared<const FillerParameter>(param)) {}

Layer::Layer(const LayerParameter& param) : param_(std::make_unique<const LayerParameter>(param)) {}

Layer::~Layer() = default;

void Layer::Backward(const BackwardArgs&) const {
  Fail(ErrorCode::kUnsupported, StrCat("a layer of type ", param_->type(), " has no gradient"),
       {.layer = param_->name()});
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
