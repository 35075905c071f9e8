// Validates the parameters of augmentations.
#pragma once

#include <optional>
#include <string>

#include "crema.pb.h"
#include "data/transform/transformer.h"

namespace crema {

// Returns the first field that is out of range, and why; `field` is the path below the layer.
std::optional<Transformer::Misfit> FindBadSampler(const AnnotatedDataParameter& param);
std::optional<Transformer::Misfit> FindBadAugmentation(const TransformationParameter& param);
// Does the same for augment_param, and for fields of `param` that conflict with it.
std::optional<Transformer::Misfit> FindBadAugmentParam(const TransformationParameter& param);
// Returns the first step that requires OpenCV in a build without it.
std::optional<Transformer::Misfit> FindOpenCvStep(const AugmentParameter& param);

}  // namespace crema
