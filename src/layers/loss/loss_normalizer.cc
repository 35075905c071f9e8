#include "layers/loss/loss_normalizer.h"

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

// An explicit mode overrides the older `normalize`, which overrides the layer's default.
LossParameter::NormalizationMode Mode(const LossParameter& param,
                                      LossParameter::NormalizationMode unset) {
  if (param.has_normalization()) return param.normalization();
  if (!param.has_normalize()) return unset;
  return param.normalize() ? LossParameter::VALID : LossParameter::BATCH_SIZE;
}

}  // namespace

LossNormalizer::LossNormalizer(const Layer& layer, LossParameter::NormalizationMode unset)
    : mode_(Mode(layer.param().loss_param(), unset)),
      pre_fixed_(layer.param().loss_param().pre_fixed_normalizer()) {
  if (mode_ == LossParameter::PRE_FIXED && !(pre_fixed_ > 0 && std::isfinite(pre_fixed_))) {
    FailField(layer, "loss_param.pre_fixed_normalizer",
              StrCat("pre_fixed_normalizer is ", pre_fixed_, ", expected more than 0"));
  }
}

double LossNormalizer::Divisor(const LossPositions& positions) const {
  double divisor = 1;
  if (mode_ == LossParameter::FULL) {
    divisor = static_cast<double>(positions.all);
  } else if (mode_ == LossParameter::VALID) {
    divisor = static_cast<double>(positions.counted);
  } else if (mode_ == LossParameter::BATCH_SIZE) {
    divisor = static_cast<double>(positions.outer);
  } else if (mode_ == LossParameter::PRE_FIXED) {
    divisor = pre_fixed_;
  }
  return std::max(1.0, divisor);
}

std::optional<int32_t> IgnoredLabel(const LossParameter& param) {
  return param.has_ignore_label() ? std::optional(param.ignore_label()) : std::nullopt;
}

}  // namespace crema
