// DetectionEvaluate on the GPU; see detection_evaluate.cc. One team sorts the detections. The
// nearest object of a detection does not depend on other detections; the first detection nearest to
// an object hits it. The host waits for the number of rows and of invalid rows.
#include <limits>

#include "crema.pb.h"
#include "layers/detection/box_lists.cuh"
#include "layers/detection/device_boxes.cuh"
#include "layers/native_check.h"

namespace crema {
namespace {

constexpr int64_t kColumns = 5;
constexpr int64_t kNothing = -1;
constexpr double kLargestItem = 1e9;  // as in WholeNumber

struct Rule {
  int64_t classes;
  int64_t background;  // -1 means none
  double threshold;
  bool count_difficult;

  CREMA_HOST_DEVICE int64_t foreground() const { return classes - (background < 0 ? 0 : 1); }
  CREMA_HOST_DEVICE bool MakesSense(float image, float label) const {
    const bool whole = image == std::trunc(image) && label == std::trunc(label);
    return whole && image >= 0 && static_cast<double>(image) < kLargestItem && label >= 0 &&
           label < static_cast<float>(classes) && label != static_cast<float>(background);
  }
};

Rule RuleOf(const Layer& layer) {
  const DetectionEvaluateParameter& p = layer.param().detection_evaluate_param();
  return {.classes = p.num_classes(),
          .background = static_cast<int32_t>(p.background_label_id()),
          .threshold = double{p.overlap_threshold()},
          .count_difficult = p.evaluate_difficult_gt()};
}

struct Detected {
  float image;
  float label;
  float score;
  int32_t row;
};

CREMA_HOST_DEVICE inline bool ComesBefore(const Detected& a, const Detected& b) {
  if (a.image != b.image) return a.image < b.image;
  if (a.label != b.label) return a.label < b.label;
  return a.score > b.score || (a.score == b.score && a.row < b.row);
}

// Results that the host reads.
struct Found {
  int64_t detections;
  int64_t wrong_rows;
};

template <typename T>
struct Blobs {
  const T* detections;
  int64_t detection_rows;
  const T* objects;
  int64_t object_rows;

  CREMA_HOST_DEVICE float Detection(int64_t row, int64_t column) const {
    return ToFloat(detections[7 * row + column]);
  }
  CREMA_HOST_DEVICE float Object(int64_t row, int64_t column) const {
    return ToFloat(objects[8 * row + column]);
  }
  CREMA_HOST_DEVICE bool IsDetection(int64_t row) const {
    return Detection(row, 0) != -1 && Detection(row, 1) != -1;
  }
  CREMA_HOST_DEVICE bool IsObject(int64_t row) const { return Object(row, 0) != -1; }
  CREMA_HOST_DEVICE bool IsDifficult(int64_t row) const { return Object(row, 7) != 0; }
  CREMA_HOST_DEVICE bool ObjectMakesSense(int64_t row, const Rule& rule) const {
    bool good = rule.MakesSense(Object(row, 0), Object(row, 1));
    for (int64_t k = 3; k < 7; ++k) good = good && std::isfinite(Object(row, k));
    return good;
  }
};

struct Lists {
  Lists(int64_t detections, int64_t objects, ScratchCutter* cutter)
      : sorted(cutter->Take<Detected>(detections)),
        nearest(cutter->Take<int64_t>(detections)),
        first(cutter->Take<int64_t>(objects)),
        found(cutter->Take<Found>(1)) {}

  Detected* sorted;  // detections
  // By sorted detection: an object that it may hit, PassedOver(object), or kNothing.
  int64_t* nearest;
  int64_t* first;  // by object: the first detection that may hit it
  Found* found;
};

template <typename T>
void SortDetections(const CudaQueue& queue, const Blobs<T>& blobs, const Rule& given,
                    const Lists& all) {
  const Blobs<T> in = blobs;
  const Rule rule = given;
  const Lists lists = all;
  ForTeams(queue, "SortDetections", 1, [=] CREMA_HOST_DEVICE(const Team& team, int64_t) {
    const int64_t count = Compact(
        team, in.detection_rows, [&](int64_t r) { return in.IsDetection(r); },
        [&](int64_t r, int64_t place) {
          const float score = in.Detection(r, 2);
          // A NaN score sorts last.
          lists.sorted[place] =
              Detected{in.Detection(r, 0), in.Detection(r, 1),
                       score == score ? score : -std::numeric_limits<float>::infinity(),
                       static_cast<int32_t>(r)};
        });
    const int64_t wrong = team.Sum(count, [&](int64_t i) -> int64_t {
      return !rule.MakesSense(lists.sorted[i].image, lists.sorted[i].label);
    });
    const int64_t wrong_objects = team.Sum(in.object_rows, [&](int64_t o) -> int64_t {
      return in.IsObject(o) && !in.ObjectMakesSense(o, rule);
    });
    team.For(1, [&](int64_t) { *lists.found = Found{count, wrong + wrong_objects}; });
    // Invalid rows may hold NaN, which has no order.
    if (wrong == 0) {
      Sort(team, count, lists.sorted,
           [](const Detected& a, const Detected& b) { return ComesBefore(a, b); });
    }
  });
}

// Encodes an object that is nearest but ignored, because it is difficult, as -2 - object.
CREMA_HOST_DEVICE inline int64_t PassedOver(int64_t object) { return -2 - object; }

template <typename T>
void FindNearest(const CudaQueue& queue, const Blobs<T>& blobs, const Rule& given,
                 const Lists& all) {
  const Blobs<T> in = blobs;
  const Rule rule = given;
  const Lists lists = all;
  ForElements(queue, "NearestObject", in.detection_rows, [=] CREMA_HOST_DEVICE(int64_t i) {
    if (i >= lists.found->detections) return;
    const Detected d = lists.sorted[i];
    const Box box = CornersAt(in.detections + 7 * d.row + 3);
    double best = -1;
    int64_t which = kNothing;
    for (int64_t o = 0; o < in.object_rows; ++o) {
      if (in.Object(o, 0) != d.image || in.Object(o, 1) != d.label) continue;
      const double overlap = Overlap(box, CornersAt(in.objects + 8 * o + 3));
      if (overlap > best) {
        best = overlap;
        which = o;
      }
    }
    if (!(best >= rule.threshold)) which = kNothing;
    const bool counts = which < 0 || rule.count_difficult || !in.IsDifficult(which);
    lists.nearest[i] = counts ? which : PassedOver(which);
  });
}

// One team per object.
template <typename T>
void FindHits(const CudaQueue& queue, const Blobs<T>& blobs, const Lists& all) {
  const Lists lists = all;
  ForTeams(queue, "FirstDetection", blobs.object_rows,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t o) {
             const int64_t count = lists.found->detections;
             const int64_t first = team.Reduce<int64_t>(
                 count, count,
                 [&](int64_t least, int64_t i) {
                   return lists.nearest[i] == o && i < least ? i : least;
                 },
                 [](int64_t a, int64_t b) { return a < b ? a : b; });
             team.For(1, [&](int64_t) { lists.first[o] = first; });
           });
}

// Writes the number of objects of each class, with one team per class.
template <typename T>
void WriteCounts(const CudaQueue& queue, const Blobs<T>& blobs, const Rule& given, T* out) {
  const Blobs<T> in = blobs;
  const Rule rule = given;
  ForTeams(queue, "CountObjects", rule.foreground(),
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t c) {
             const int64_t label = rule.background >= 0 && c >= rule.background ? c + 1 : c;
             const int64_t count = team.Sum(in.object_rows, [&](int64_t o) -> int64_t {
               return in.IsObject(o) && in.Object(o, 1) == static_cast<float>(label) &&
                      (rule.count_difficult || !in.IsDifficult(o));
             });
             team.For(kColumns, [&](int64_t k) {
               const int64_t value = k == 1 ? label : k == 2 ? count : -1;
               out[c * kColumns + k] = FromFloat<T>(static_cast<float>(value));
             });
           });
}

template <typename T>
void WriteJudged(const CudaQueue& queue, int64_t rows, const Lists& all, T* out) {
  const Lists lists = all;
  ForElements(queue, "JudgedDetections", rows, [=] CREMA_HOST_DEVICE(int64_t i) {
    if (i >= lists.found->detections) return;
    const Detected d = lists.sorted[i];
    const int64_t object = lists.nearest[i];
    const bool hit = object >= 0 && lists.first[object] == i;
    const bool miss = object >= kNothing && !hit;
    T* row = out + i * kColumns;
    row[0] = FromFloat<T>(d.image);
    row[1] = FromFloat<T>(d.label);
    row[2] = FromFloat<T>(d.score);
    row[3] = FromFloat<T>(hit);
    row[4] = FromFloat<T>(miss);
  });
}

struct GpuDetectionEvaluate {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Rule rule = RuleOf(layer);
    const Blobs<T> blobs{
        .detections = args.x(0),
        .detection_rows = args.inputs[0].count() / 7,
        .objects = args.x(1),
        .object_rows = args.inputs[1].count() / 8,
    };
    ScratchCutter cutter(args.scratch);
    const Lists lists(blobs.detection_rows, blobs.object_rows, &cutter);
    T* const out = args.y();
    SortDetections(args.queue, blobs, rule, lists);
    FindNearest(args.queue, blobs, rule, lists);
    FindHits(args.queue, blobs, lists);
    WriteCounts(args.queue, blobs, rule, out);
    WriteJudged(args.queue, blobs.detection_rows, lists, out + rule.foreground() * kColumns);
    Found found{};
    args.queue.Download(&found, lists.found, sizeof(found));
    if (found.wrong_rows > 0) FailNatively(layer, args);
    args.output_shapes[0] = Shape({1, 1, rule.foreground() + found.detections, kColumns});
  }

  static Support Supports(const OpDesc& query) {
    if (!query.layer.param().detection_evaluate_param().name_size_file().empty()) {
      return Support::No("reads the sizes of name_size_file on the CPU");
    }
    return SupportsCudaFloats(query);
  }

  static size_t ForwardScratch(const OpDesc& query) {
    const std::span<const BlobSpec> inputs = query.context.inputs;
    return ScratchCutter::Booked([&](ScratchCutter* cutter) {
      Lists(inputs[0].shape.count() / 7, inputs[1].shape.count() / 8, cutter);
    });
  }
};

}  // namespace

void RegisterDetectionEvaluateCuda(Registry& registry) {
  registry.AddImplementation("DetectionEvaluate", CudaImplementation<GpuDetectionEvaluate>());
}

}  // namespace crema
