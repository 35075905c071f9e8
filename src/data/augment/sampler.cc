#include "data/augment/sampler.h"

#include <algorithm>
#include <cmath>

#include "crema.pb.h"

namespace crema {
namespace {

bool HasAny(const SampleConstraint& c) {
  return c.has_min_jaccard_overlap() || c.has_max_jaccard_overlap() ||
         c.has_min_sample_coverage() || c.has_max_sample_coverage() ||
         c.has_min_object_coverage() || c.has_max_object_coverage();
}

bool Fulfils(const SampleConstraint& c, const Box& box, const Box& object) {
  const auto within = [](double value, bool has_min, float min, bool has_max, float max) {
    return (!has_min || value >= static_cast<double>(min)) &&
           (!has_max || value <= static_cast<double>(max));
  };
  return within(Overlap(box, object), c.has_min_jaccard_overlap(), c.min_jaccard_overlap(),
                c.has_max_jaccard_overlap(), c.max_jaccard_overlap()) &&
         within(Coverage(box, object), c.has_min_sample_coverage(), c.min_sample_coverage(),
                c.has_max_sample_coverage(), c.max_sample_coverage()) &&
         within(Coverage(object, box), c.has_min_object_coverage(), c.min_object_coverage(),
                c.has_max_object_coverage(), c.max_object_coverage());
}

}  // namespace

Box DrawBox(const Sampler& sampler, Draws& draws) {
  const double scale = draws.Uniform(static_cast<double>(sampler.min_scale()),
                                     static_cast<double>(sampler.max_scale()));
  // Ratios beyond these make the box wider or higher than the image.
  const double least = std::max(static_cast<double>(sampler.min_aspect_ratio()), scale * scale);
  const double most =
      std::min(static_cast<double>(sampler.max_aspect_ratio()), 1 / (scale * scale));
  const double ratio = draws.Uniform(least, most);
  const double width = std::min(1.0, scale * std::sqrt(ratio));
  const double height = std::min(1.0, scale / std::sqrt(ratio));
  Box box;
  box.xmin = draws.Uniform(0, 1 - width);
  box.ymin = draws.Uniform(0, 1 - height);
  box.xmax = box.xmin + width;
  box.ymax = box.ymin + height;
  return box;
}

bool Satisfies(const SampleConstraint& constraint, const Box& box,
               const std::vector<AnnotatedBox>& objects) {
  return !HasAny(constraint) || std::ranges::any_of(objects, [&](const AnnotatedBox& object) {
    return Fulfils(constraint, box, object.box);
  });
}

std::vector<Box> DrawCrops(const google::protobuf::RepeatedPtrField<BatchSampler>& samplers,
                           const std::vector<AnnotatedBox>& objects, Draws& draws) {
  std::vector<Box> crops;
  for (const BatchSampler& sampler : samplers) {
    if (!sampler.use_original_image()) continue;  // no other source of crops is supported
    uint32_t found = 0;
    for (uint32_t trial = 0; trial < sampler.max_trials(); ++trial) {
      if (sampler.has_max_sample() && found >= sampler.max_sample()) break;
      const Box box = DrawBox(sampler.sampler(), draws);
      if (!Satisfies(sampler.sample_constraint(), box, objects)) continue;
      crops.push_back(box);
      ++found;
    }
  }
  return crops;
}

}  // namespace crema
