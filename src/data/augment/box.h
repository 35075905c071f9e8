// Bounding boxes, in units of their image.
#pragma once

#include <vector>

#include "crema.pb.h"

namespace crema {

// Corners; the default is the whole image.
struct Box {
  double xmin = 0;
  double ymin = 0;
  double xmax = 1;
  double ymax = 1;

  double width() const { return xmax - xmin; }
  double height() const { return ymax - ymin; }
  bool operator==(const Box&) const = default;
};

struct ObjectBox {
  Box box;
  int label = 0;
  int instance = 0;
  bool difficult = false;
};

double Area(const Box& box);  // 0 for an inverted box
Box Intersection(const Box& a, const Box& b);
double JaccardOverlap(const Box& a, const Box& b);    // intersection over union; 0 when disjoint
double Coverage(const Box& whole, const Box& cover);  // share of `whole` that lies in `cover`
Box Clip(const Box& box);                             // to the image
Box MirrorBox(const Box& box);                        // left to right
Box Project(const Box& window, const Box& box);       // into units of the window; not clipped

// Returns true if an object still counts when the image is reduced to the window.
bool IsEmitted(const EmitConstraint& constraint, const Box& window, const Box& box);

// Returns the objects that intersect the window, clipped to it and in its units. With a constraint
// (may be null), only those that fulfil it.
std::vector<ObjectBox> ProjectObjects(const std::vector<ObjectBox>& objects, const Box& window,
                                      const EmitConstraint* constraint);

}  // namespace crema
