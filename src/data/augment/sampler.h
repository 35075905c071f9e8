// Random crops that fulfil constraints on the objects inside (batch_sampler).
#pragma once

#include <vector>

#include "crema.pb.h"
#include "data/augment/box.h"
#include "data/augment/draws.h"

namespace crema {

// Draws a box inside of the image; scale and aspect ratio are uniform.
Box DrawBox(const Sampler& sampler, Draws& draws);

// Returns true if some object fulfils all parts of the constraint. Always true for an empty
// constraint.
bool Satisfies(const SampleConstraint& constraint, const Box& box,
               const std::vector<AnnotatedBox>& objects);

// Returns the crops of all samplers: each tries max_trials boxes and keeps up to max_sample of
// those that fulfil its constraint.
std::vector<Box> DrawCrops(const google::protobuf::RepeatedPtrField<BatchSampler>& samplers,
                           const std::vector<AnnotatedBox>& objects, Draws& draws);

}  // namespace crema
