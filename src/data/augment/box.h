// Boxes of objects, in units of the image that they lie in.
#pragma once

#include <vector>

#include "crema.pb.h"

namespace crema {

// Corners; a default one is the whole image.
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

double Area(const Box& box);  // 0 for one that is turned inside out
Box Intersection(const Box& a, const Box& b);
double JaccardOverlap(const Box& a, const Box& b);    // intersection over union; 0 when disjoint
double Coverage(const Box& whole, const Box& cover);  // share of `whole` that `cover` covers
Box Clip(const Box& box);                             // to the image
Box MirrorBox(const Box& box);                        // left to right
Box Project(const Box& window, const Box& box);       // into units of the window; not clipped

// Whether an object still counts when only the window is left.
bool IsEmitted(const EmitConstraint& constraint, const Box& window, const Box& box);

// What is left of the objects inside of the window, in its units and clipped to it: those that
// touch it and, where there is a constraint (may be null), fulfil it.
std::vector<ObjectBox> ProjectObjects(const std::vector<ObjectBox>& objects, const Box& window,
                                      const EmitConstraint* constraint);

}  // namespace crema
