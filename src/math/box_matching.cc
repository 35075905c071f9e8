#include "math/box_matching.h"

#include <algorithm>

namespace crema {
namespace {

struct Pair {
  double overlap;
  int64_t box;
  int64_t object;
};

double Rank(const Pair& pair) { return MatchRank(pair.overlap); }

// Returns all pairs that may match, best first. Equal pairs are in the order of their boxes, as in
// Caffe.
std::vector<Pair> RankedPairs(std::span<const Box> boxes, std::span<const Box> objects,
                              BoxMatches* matches) {
  std::vector<Pair> pairs;
  for (size_t b = 0; b < boxes.size(); ++b) {
    if (matches->object[b] == kIgnoredBox || !HasArea(boxes[b])) continue;
    for (size_t o = 0; o < objects.size(); ++o) {
      if (!HasArea(objects[o])) continue;
      const double overlap = Overlap(boxes[b], objects[o]);
      if (!(overlap > kLeastMatchOverlap)) continue;
      matches->overlap[b] = std::max(matches->overlap[b], overlap);
      pairs.push_back({overlap, static_cast<int64_t>(b), static_cast<int64_t>(o)});
    }
  }
  std::ranges::stable_sort(pairs, std::ranges::greater{}, Rank);
  return pairs;
}

}  // namespace

BoxMatches MatchBoxes(std::span<const Box> boxes, std::span<const Box> objects,
                      const MatchRule& rule) {
  BoxMatches matches{std::vector<int64_t>(boxes.size(), kUnmatched),
                     std::vector<double>(boxes.size(), 0.0)};
  for (size_t b = 0; b < boxes.size() && rule.ignore_outside; ++b) {
    if (!InUnitSquare(boxes[b])) matches.object[b] = kIgnoredBox;
  }
  const std::vector<Pair> pairs = RankedPairs(boxes, objects, &matches);
  std::vector<bool> has_box(objects.size(), false);
  for (const Pair& pair : pairs) {
    int64_t& object = matches.object[static_cast<size_t>(pair.box)];
    if (object != kUnmatched || has_box[static_cast<size_t>(pair.object)]) continue;
    object = pair.object;
    has_box[static_cast<size_t>(pair.object)] = true;
  }
  if (!rule.per_prediction) return matches;
  for (const Pair& pair : pairs) {
    int64_t& object = matches.object[static_cast<size_t>(pair.box)];
    if (object == kUnmatched && pair.overlap >= rule.overlap_threshold) object = pair.object;
  }
  return matches;
}

}  // namespace crema
