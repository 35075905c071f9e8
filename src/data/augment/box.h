// Bounding boxes of the objects in an image, in units of the image.
#pragma once

#include <vector>

#include "crema.pb.h"
#include "math/boxes.h"

namespace crema {

inline constexpr Box kWholeImage{.xmin = 0, .ymin = 0, .xmax = 1, .ymax = 1};

struct AnnotatedBox {
  Box box;
  int label = 0;
  int instance = 0;
  bool difficult = false;
};

// Returns the share of `whole` that lies in `cover`; 0 for boxes without area.
double Coverage(const Box& whole, const Box& cover);
Box Clip(const Box& box);                        // to the image
Box MirrorBox(const Box& box);                   // left to right
Box Project(const Box& window, const Box& box);  // into units of the window; not clipped

// Returns true if an object still counts when the image is reduced to the window.
bool IsEmitted(const EmitConstraint& constraint, const Box& window, const Box& box);

// Returns the objects that intersect the window, clipped to it and in its units. With a constraint
// (may be null), only those that fulfil it.
std::vector<AnnotatedBox> ProjectObjects(const std::vector<AnnotatedBox>& objects,
                                         const Box& window, const EmitConstraint* constraint);

}  // namespace crema
