// Random crops that fulfil constraints on the objects inside (batch_sampler).
#pragma once

#include <vector>

#include "crema.pb.h"
#include "data/augment/box.h"
#include "data/augment/draws.h"

namespace crema {

// A box inside of the image with scale and aspect ratio drawn uniformly.
Box DrawBox(const Sampler& sampler, Draws& draws);

// Whether some object fulfils all parts of the constraint; always true without any part.
bool Satisfies(const SampleConstraint& constraint, const Box& box,
               const std::vector<ObjectBox>& objects);

// The crops of all samplers: each tries max_trials boxes and keeps at most max_sample of those
// that fulfil its constraint.
std::vector<Box> DrawCrops(const google::protobuf::RepeatedPtrField<BatchSampler>& samplers,
                           const std::vector<ObjectBox>& objects, Draws& draws);

}  // namespace crema
