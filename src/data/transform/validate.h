// Whether the parameters of augmentations make sense.
#pragma once

#include <optional>
#include <string>

#include "crema.pb.h"
#include "data/transform/transformer.h"

namespace crema {

// The first field that is out of range, and why; `field` is the path below the layer.
std::optional<Transformer::Misfit> FindBadSampler(const AnnotatedDataParameter& param);
std::optional<Transformer::Misfit> FindBadAugmentation(const TransformationParameter& param);
// The same for augment_param, and what else in `param` does not go with it.
std::optional<Transformer::Misfit> FindBadAugmentParam(const TransformationParameter& param);
// The first step that a build without OpenCV has not.
std::optional<Transformer::Misfit> FindOpenCvStep(const AugmentParameter& param);

}  // namespace crema
