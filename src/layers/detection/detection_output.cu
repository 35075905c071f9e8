// DetectionOutput on the GPU; see detection_output.cc. One team processes a class of an image, then
// one team per image combines the classes. The host waits for the number of detections, and for
// their values if they are written to files.
#include <limits>
#include <vector>

#include "crema.pb.h"
#include "layers/detection/box_lists.cuh"
#include "layers/detection/detection_files.h"
#include "layers/detection/device_boxes.cuh"

namespace crema {
namespace {

constexpr int64_t kColumns = 7;

using Candidate = Ranked<float>;

struct Rule {
  SuppressionRule suppression;
  double least;        // scores must exceed it
  int64_t top_k;       // per class; -1 means all
  int64_t keep_top_k;  // per image; -1 means all
  int64_t background;
};

struct Sizes {
  BoxSizes boxes;
  int64_t candidates;  // upper limit per class
  int64_t most;        // upper limit of rows per image

  CREMA_HOST_DEVICE int64_t lists() const { return boxes.images * boxes.classes; }
  CREMA_HOST_DEVICE int64_t slots() const { return boxes.classes * candidates; }  // per image
};

struct Lists {
  Candidate* ranked;    // lists x priors
  Box* boxes;           // lists x candidates
  double* worst;        // lists x candidates
  int32_t* kept;        // lists x candidates: indices of kept candidates
  int64_t* counts;      // indexed by list
  Candidate* of_image;  // images x slots
  ImageRows rows;
};

Rule RuleOf(const Layer& layer) {
  const DetectionOutputParameter& d = layer.param().detection_output_param();
  return {
      .suppression = SuppressionOf(layer, d.nms_param(), "detection_output_param.nms_param"),
      .least = d.has_confidence_threshold() ? double{d.confidence_threshold()}
                                            : -std::numeric_limits<double>::infinity(),
      .top_k = d.nms_param().has_top_k() ? int64_t{d.nms_param().top_k()} : -1,
      .keep_top_k = d.keep_top_k(),
      .background = d.background_label_id(),
  };
}

Sizes AllSizesOf(const Layer& layer, const BoxSizes& boxes, const Shape& out) {
  const Rule rule = RuleOf(layer);
  return {.boxes = boxes,
          .candidates = rule.top_k < 0 ? boxes.priors : std::min(rule.top_k, boxes.priors),
          .most = boxes.images == 0 ? 0 : out[2] / boxes.images};
}

Lists Cut(const Sizes& e, ScratchCutter* cutter) {
  const int64_t all = e.lists() * e.candidates;
  Lists lists{};
  lists.ranked = cutter->Take<Candidate>(e.lists() * e.boxes.priors);
  lists.boxes = cutter->Take<Box>(all);
  lists.worst = cutter->Take<double>(all);
  lists.kept = cutter->Take<int32_t>(all);
  lists.counts = cutter->Take<int64_t>(e.lists());
  lists.of_image = cutter->Take<Candidate>(e.boxes.images * e.slots());
  lists.rows = ImageRows::Cut(cutter, e.boxes.images, e.most);
  return lists;
}

// Finds the boxes of each class that remain after suppression.
template <typename T>
void DetectClasses(const CudaQueue& queue, const DevicePredictions<T>& predictions,
                   const Rule& given, const Sizes& sizes, const Lists& lists) {
  const DevicePredictions<T> from = predictions;
  const Rule rule = given;
  const Sizes e = sizes;
  const Lists to = lists;
  ForTeams(queue, "DetectClass", e.lists(), [=] CREMA_HOST_DEVICE(const Team& team, int64_t list) {
    const int64_t n = list / e.boxes.classes;
    const int64_t label = list % e.boxes.classes;
    Candidate* ranked = to.ranked + list * e.boxes.priors;
    Box* boxes = to.boxes + list * e.candidates;
    int32_t* kept = to.kept + list * e.candidates;
    const auto score = [&](int64_t p) { return ToFloat(from.Scores(n, p)[label]); };
    const int64_t found = Compact(
        team, label == rule.background ? 0 : e.boxes.priors,
        [&](int64_t p) { return static_cast<double>(score(p)) > rule.least; },
        [&](int64_t p, int64_t place) {
          ranked[place] = Candidate{score(p), static_cast<int32_t>(p)};
        });
    SortBestFirst(team, found, ranked);
    const int64_t best = found < e.candidates ? found : e.candidates;
    team.For(best, [&](int64_t i) {
      boxes[i] = from.Predicted(n, ranked[i].index, e.boxes.box_classes == 1 ? 0 : label);
    });
    const int64_t count =
        SuppressBoxes(team, best, boxes, rule.suppression, to.worst + list * e.candidates,
                      [&](int64_t i, int64_t place) { kept[place] = static_cast<int32_t>(i); });
    team.For(1, [&](int64_t) { to.counts[list] = count; });
  });
}

// Detections of one image: slot label * candidates + i is detection i of a class.
struct ImageSlots {
  Sizes e;
  Lists lists;
  int64_t image;

  CREMA_HOST_DEVICE int64_t List(int64_t slot) const {
    return image * e.boxes.classes + slot / e.candidates;
  }
  CREMA_HOST_DEVICE bool Used(int64_t slot) const {
    return slot % e.candidates < lists.counts[List(slot)];
  }
  // Returns the index of the candidate in its list.
  CREMA_HOST_DEVICE int64_t Which(int64_t slot) const {
    return lists.kept[List(slot) * e.candidates + slot % e.candidates];
  }
  CREMA_HOST_DEVICE Candidate Rank(int64_t slot) const {
    const float score = lists.ranked[List(slot) * e.boxes.priors + Which(slot)].score;
    return {score, static_cast<int32_t>(slot)};
  }
  CREMA_HOST_DEVICE const Box& At(int64_t slot) const {
    return lists.boxes[List(slot) * e.candidates + Which(slot)];
  }
};

// Writes rows[n * most ..]: the best keep_top_k detections of image n over all classes.
template <typename T>
void DetectImages(const CudaQueue& queue, const Rule& rule, const Sizes& sizes, const Lists& all,
                  T* rows) {
  const Sizes e = sizes;
  const Lists lists = all;
  const int64_t keep = rule.keep_top_k;
  ForTeams(
      queue, "DetectImage", e.boxes.images, [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
        const ImageSlots slots{e, lists, n};
        Candidate* ranked = lists.of_image + n * e.slots();
        const int64_t found = Compact(
            team, e.slots(), [&](int64_t slot) { return slots.Used(slot); },
            [&](int64_t slot, int64_t place) { ranked[place] = slots.Rank(slot); });
        const bool cut = keep >= 0 && found > keep;
        if (cut) SortBestFirst(team, found, ranked);
        const int64_t count = Compact(
            team, cut && keep == 0 ? 0 : e.slots(),
            [&](int64_t slot) {
              return slots.Used(slot) && !(cut && IsBetter(ranked[keep - 1], slots.Rank(slot)));
            },
            [&](int64_t slot, int64_t place) {
              const Box& box = slots.At(slot);
              T* row = rows + (n * e.most + place) * kColumns;
              row[0] = FromFloat<T>(static_cast<float>(n));
              row[1] = FromFloat<T>(static_cast<float>(slot / e.candidates));
              row[2] = FromFloat<T>(slots.Rank(slot).score);
              row[3] = FromFloat<T>(static_cast<float>(box.xmin));
              row[4] = FromFloat<T>(static_cast<float>(box.ymin));
              row[5] = FromFloat<T>(static_cast<float>(box.xmax));
              row[6] = FromFloat<T>(static_cast<float>(box.ymax));
            });
        team.For(1, [&](int64_t) { lists.rows.counts[n] = count; });
      });
}

// Adds the detections of this pass to the benchmark files, one image at a time.
template <typename T>
void AddToFiles(CudaQueue& queue, const ImageRows& rows, int64_t count, const T* out,
                DetectionFiles* files) {
  std::vector<int64_t> starts(static_cast<size_t>(rows.images + 1));
  queue.Download(starts.data(), rows.starts, starts.size() * sizeof(int64_t));
  std::vector<T> values(static_cast<size_t>(count * kColumns));
  if (count > 0) queue.Download(values.data(), out, values.size() * sizeof(T));
  for (size_t n = 0; n + 1 < starts.size(); ++n) {
    std::vector<Detection> found;
    for (int64_t r = starts[n]; r < starts[n + 1]; ++r) {
      const T* row = values.data() + r * kColumns;
      found.push_back({static_cast<int64_t>(ToFloat(row[1])), static_cast<double>(ToFloat(row[2])),
                       CornersAt(row + 3)});
    }
    files->Add(found);
  }
}

struct GpuDetectionOutput {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const DetectionOutputParameter& d = layer.param().detection_output_param();
    const Rule rule = RuleOf(layer);
    const BoxSizes boxes = SizesOf(layer, args.inputs, d.num_classes(), d.share_location());
    const Sizes e = AllSizesOf(layer, boxes, args.outputs[0].shape());
    ScratchCutter cutter(args.scratch);
    const Lists lists = Cut(e, &cutter);
    T* const rows = cutter.Take<T>(args.outputs[0].count());
    DevicePredictions<T> predictions = PredictionsOf<T>(
        boxes, CodeOf(d.code_type()), !d.variance_encoded_in_target(), args.inputs);
    predictions.clip = d.clip();
    DetectClasses(args.queue, predictions, rule, e, lists);
    DetectImages(args.queue, rule, e, lists, rows);
    FillStarts(args.queue, lists.rows);
    PackRows(args.queue, lists.rows, kColumns, rows, args.y());
    WriteNoDetection(args.queue, lists.rows, kColumns, args.y());
    const int64_t count = ReadRowCount(args.queue, lists.rows);
    args.output_shapes[0] = Shape({1, 1, count == 0 ? boxes.images : count, kColumns});
    if (args.state == nullptr) return;
    AddToFiles(args.queue, lists.rows, count, args.y(), static_cast<DetectionFiles*>(args.state));
  }

  static size_t ForwardScratch(const OpDesc& query) {
    const DetectionOutputParameter& d = query.layer.param().detection_output_param();
    const Shape& out = query.info.outputs[0].shape;
    const Sizes e = AllSizesOf(
        query.layer,
        CheckPredictions(query.layer, query.context.inputs, d.num_classes(), d.share_location()),
        out);
    return ScratchCutter::Booked([&](ScratchCutter* cutter) {
      Cut(e, cutter);
      cutter->Take<float>(out.count());
    });
  }
};

}  // namespace

void RegisterDetectionOutputCuda(Registry& registry) {
  registry.AddImplementation("DetectionOutput", CudaImplementation<GpuDetectionOutput>());
}

}  // namespace crema
