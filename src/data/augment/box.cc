#include "data/augment/box.h"

#include <algorithm>

#include "crema.pb.h"

namespace crema {

double Area(const Box& box) { return std::max(0.0, box.width()) * std::max(0.0, box.height()); }

Box Intersection(const Box& a, const Box& b) {
  return {.xmin = std::max(a.xmin, b.xmin),
          .ymin = std::max(a.ymin, b.ymin),
          .xmax = std::min(a.xmax, b.xmax),
          .ymax = std::min(a.ymax, b.ymax)};
}

namespace {

// Guards against two inverted boxes, which would otherwise seem to intersect.
double CommonArea(const Box& a, const Box& b) {
  const Box common = Intersection(a, b);
  return common.width() <= 0 || common.height() <= 0 ? 0 : Area(common);
}

}  // namespace

double JaccardOverlap(const Box& a, const Box& b) {
  const double common = CommonArea(a, b);
  return common == 0 ? 0 : common / (Area(a) + Area(b) - common);
}

double Coverage(const Box& whole, const Box& cover) {
  const double common = CommonArea(whole, cover);
  return common == 0 ? 0 : common / Area(whole);
}

Box Clip(const Box& box) {
  const auto clip = [](double value) { return std::clamp(value, 0.0, 1.0); };
  return {.xmin = clip(box.xmin),
          .ymin = clip(box.ymin),
          .xmax = clip(box.xmax),
          .ymax = clip(box.ymax)};
}

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

std::vector<ObjectBox> ProjectObjects(const std::vector<ObjectBox>& objects, const Box& window,
                                      const EmitConstraint* constraint) {
  std::vector<ObjectBox> kept;
  for (ObjectBox object : objects) {
    if (constraint != nullptr && !IsEmitted(*constraint, window, object.box)) continue;
    object.box = Clip(Project(window, object.box));
    if (Area(object.box) > 0) kept.push_back(object);
  }
  return kept;
}

}  // namespace crema
