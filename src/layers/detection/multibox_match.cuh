// Matching of boxes and objects on GPUs, like math/box_matching.cc for each image.
#pragma once

#include "layers/detection/multibox_lists.cuh"

namespace crema {

// Lists the objects of each image in order, with one team per image, and counts invalid rows.
template <typename T>
void ListObjects(const CudaQueue& queue, const MultiBoxBatch<T>& given) {
  const MultiBoxBatch<T> batch = given;
  const int64_t rows = batch.sizes.objects;
  ForTeams(queue, "WrongObjects", 1, [=] CREMA_HOST_DEVICE(const Team& team, int64_t) {
    const int64_t wrong = team.Sum(rows, [&](int64_t r) -> int64_t {
      return batch.Object(r, 0) != -1 && !batch.MakesSense(r);
    });
    team.For(1, [&](int64_t) { *batch.lists.wrong_objects = wrong; });
  });
  ForTeams(queue, "ObjectsOfImage", batch.sizes.boxes.images,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
             int32_t* list = batch.lists.objects + n * rows;
             const int64_t count = Compact(
                 team, rows,
                 [&](int64_t r) {
                   return batch.Object(r, 0) == static_cast<float>(n) && batch.MakesSense(r) &&
                          (batch.use_difficult || batch.Object(r, 7) == 0);
                 },
                 [&](int64_t r, int64_t place) { list[place] = static_cast<int32_t>(r); });
             team.For(1, [&](int64_t) { batch.lists.object_counts[n] = count; });
           });
}

// The boxes of one class of one image, and the objects that may match them.
template <typename T>
struct Matching {
  const MultiBoxBatch<T>& batch;
  int64_t image;
  int64_t box_class;

  CREMA_HOST_DEVICE int64_t Objects() const { return batch.lists.object_counts[image]; }
  CREMA_HOST_DEVICE int64_t Row(int64_t o) const {
    return batch.lists.objects[image * batch.sizes.objects + o];
  }
  // A class-specific box matches objects of its class only.
  CREMA_HOST_DEVICE bool Fits(int64_t o) const {
    return batch.sizes.boxes.box_classes == 1 || batch.Label(Row(o)) == box_class;
  }
  CREMA_HOST_DEVICE Box At(int64_t p) const {
    return batch.rule.match_priors ? batch.from.Prior(p)
                                   : batch.from.Predicted(image, p, box_class);
  }
  CREMA_HOST_DEVICE int32_t* Matches() const {
    return batch.lists.match + batch.MatchAt(image, box_class);
  }
  CREMA_HOST_DEVICE BoxPair* Best() const {
    return batch.lists.best +
           (image * batch.sizes.boxes.box_classes + box_class) * batch.sizes.objects;
  }
  // Returns the overlap with object o; 0 if they may not match.
  CREMA_HOST_DEVICE double OverlapOf(const Box& box, int64_t o) const {
    if (!Fits(o)) return 0;
    const Box object = batch.ObjectBox(Row(o));
    if (!HasArea(object)) return 0;
    const double overlap = Overlap(box, object);
    return overlap > kLeastMatchOverlap ? overlap : 0;
  }

  // Returns the best free box for object o.
  CREMA_HOST_DEVICE BoxPair BestFree(const Team& team, int64_t o) const {
    const int32_t* matches = Matches();
    return team.Reduce<BoxPair>(
        batch.sizes.boxes.priors, BoxPair{0, -1, o},
        [&](const BoxPair& best, int64_t p) {
          if (matches[p] != kUnmatched) return best;
          const Box box = At(p);
          const double overlap = HasArea(box) ? OverlapOf(box, o) : 0;
          return overlap > 0 ? BetterPair(best, BoxPair{MatchRank(overlap), p, o}) : best;
        },
        [](const BoxPair& a, const BoxPair& b) { return BetterPair(a, b); });
  }
};

// Gives each object its own box by repeatedly taking the best free pair. The best free box of an
// object is recomputed only if another object took it.
template <typename T>
CREMA_HOST_DEVICE void MatchEachObject(const Team& team, const Matching<T>& m) {
  BoxPair* best = m.Best();
  int32_t* matches = m.Matches();
  const int64_t objects = m.Objects();
  for (int64_t o = 0; o < objects; ++o) {
    const BoxPair pair = m.BestFree(team, o);
    team.For(1, [&](int64_t) { best[o] = pair; });
  }
  for (int64_t round = 0; round < objects; ++round) {
    const BoxPair pair = team.Reduce<BoxPair>(
        objects, BoxPair{0, -1, -1},
        [&](const BoxPair& all, int64_t o) { return BetterPair(all, best[o]); },
        [](const BoxPair& a, const BoxPair& b) { return BetterPair(a, b); });
    if (pair.box < 0) break;
    team.For(1, [&](int64_t) {
      matches[pair.box] = static_cast<int32_t>(m.Row(pair.object));
      best[pair.object].box = -1;
    });
    for (int64_t o = 0; o < objects; ++o) {
      if (best[o].box != pair.box) continue;
      const BoxPair other = m.BestFree(team, o);
      team.For(1, [&](int64_t) { best[o] = other; });
    }
  }
}

// One team per image and box class.
template <typename T>
void MatchObjects(const CudaQueue& queue, const MultiBoxBatch<T>& given) {
  const MultiBoxBatch<T> batch = given;
  ForTeams(queue, "MatchObjects", batch.sizes.matchings(),
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t i) {
             const Matching<T> m{batch, i / batch.sizes.boxes.box_classes,
                                 i % batch.sizes.boxes.box_classes};
             team.For(batch.sizes.boxes.priors, [&](int64_t p) {
               const bool ignored = batch.rule.match.ignore_outside && !InUnitSquare(m.At(p));
               m.Matches()[p] = static_cast<int32_t>(ignored ? kIgnoredBox : kUnmatched);
             });
             MatchEachObject(team, m);
           });
}

// Matches each free box with the object that it overlaps most. Removes a match if its prior has no
// area, since nothing can be encoded relative to it.
template <typename T>
void MatchBoxesLeft(const CudaQueue& queue, const MultiBoxBatch<T>& given) {
  const MultiBoxBatch<T> batch = given;
  const int64_t priors = batch.sizes.boxes.priors;
  ForElements(queue, "MatchBoxesLeft", batch.sizes.matchings() * priors,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t of = i / priors, p = i % priors;
                const Matching<T> m{batch, of / batch.sizes.boxes.box_classes,
                                    of % batch.sizes.boxes.box_classes};
                int64_t match = batch.lists.match[i];
                const Box box = m.At(p);
                const bool takes_part = match != kIgnoredBox && HasArea(box);
                double largest = 0;
                BoxPair best{0, -1, -1};
                for (int64_t o = 0; takes_part && o < m.Objects(); ++o) {
                  const double overlap = m.OverlapOf(box, o);
                  if (overlap > largest) largest = overlap;
                  if (overlap == 0 || overlap < batch.rule.match.overlap_threshold) continue;
                  best = BetterPair(best, BoxPair{MatchRank(overlap), p, o});
                }
                if (match == kUnmatched && batch.rule.match.per_prediction && best.box >= 0) {
                  match = m.Row(best.object);
                }
                if (match >= 0 && !HasArea(batch.from.Prior(p))) match = kUnmatched;
                batch.lists.match[i] = static_cast<int32_t>(match);
                batch.lists.overlap[i] = largest;
              });
}

}  // namespace crema
