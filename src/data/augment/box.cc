#include "data/augment/box.h"

#include "crema.pb.h"

namespace crema {

double Coverage(const Box& whole, const Box& cover) {
  const double common = Intersection(whole, cover);
  return common == 0 ? 0 : common / Area(whole);
}

Box Clip(const Box& box) { return Clip(box, 1, 1); }

Box MirrorBox(const Box& box) {
  return {.xmin = 1 - box.xmax, .ymin = box.ymin, .xmax = 1 - box.xmin, .ymax = box.ymax};
}

Box Project(const Box& window, const Box& box) {
  return {.xmin = (box.xmin - window.xmin) / window.width(),
          .ymin = (box.ymin - window.ymin) / window.height(),
          .xmax = (box.xmax - window.xmin) / window.width(),
          .ymax = (box.ymax - window.ymin) / window.height()};
}

bool IsEmitted(const EmitConstraint& constraint, const Box& window, const Box& box) {
  if (constraint.emit_type() == EmitConstraint::MIN_OVERLAP) {
    return Coverage(box, window) > static_cast<double>(constraint.emit_overlap());
  }
  const double x = (box.xmin + box.xmax) / 2;
  const double y = (box.ymin + box.ymax) / 2;
  return x >= window.xmin && x <= window.xmax && y >= window.ymin && y <= window.ymax;
}

std::vector<AnnotatedBox> ProjectObjects(const std::vector<AnnotatedBox>& objects,
                                         const Box& window, const EmitConstraint* constraint) {
  std::vector<AnnotatedBox> kept;
  for (AnnotatedBox object : objects) {
    if (constraint != nullptr && !IsEmitted(*constraint, window, object.box)) continue;
    object.box = Clip(Project(window, object.box));
    if (Area(object.box) > 0) kept.push_back(object);
  }
  return kept;
}

}  // namespace crema
