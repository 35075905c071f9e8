// YoloDetectionOutput and Yolov3DetectionOutput on the GPU; see yolo_output.cc. All boxes are
// decoded, then one team processes an image. The host waits for the number of detections.
#include "layers/detection/box_lists.cuh"
#include "layers/detection/yolo_output.h"

namespace crema {
namespace {

constexpr int64_t kColumns = 7;

using Candidate = Ranked<double>;

// By image: `count` elements each.
struct Lists {
  Lists(const YoloHead& head, ScratchCutter* cutter)
      : count(head.boxes),
        all(cutter->Take<YoloBox>(head.images * count)),
        ranked(cutter->Take<Candidate>(head.images * count)),
        boxes(cutter->Take<Box>(head.images * count)),
        worst(cutter->Take<double>(head.images * count)),
        rows(ImageRows::Cut(cutter, head.images, count)) {}

  int64_t count;
  YoloBox* all;
  Candidate* ranked;
  Box* boxes;
  double* worst;
  ImageRows rows;
};

// Decodes the boxes of one anchor of a grid.
template <typename T>
void DecodeBoxes(const CudaQueue& queue, const YoloHead& head, const YoloGrid& grid, size_t anchor,
                 const T* predictions, const Lists& lists) {
  const YoloVersion version = head.version;
  const int64_t classes = head.classes, width = grid.width, height = grid.height;
  const int64_t places = grid.places();
  const auto a = static_cast<int64_t>(anchor);
  const int64_t channels = 5 + classes;
  const int64_t of_image = static_cast<int64_t>(grid.anchors.size()) * channels * places;
  const YoloAnchor size = grid.anchors[anchor];
  const T* const x = predictions + a * channels * places;
  YoloBox* const to = lists.all + grid.first + a * places;
  const int64_t count = lists.count;
  ForElements(queue, "DecodeYolo", head.images * places, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t n = i / places, at = i % places;
    const T* from = x + n * of_image + at;
    to[n * count + at] =
        DecodeYolo(version, classes, {at % width, at / width, width, height, size},
                   [&](int64_t c) { return static_cast<double>(ToFloat(from[c * places])); });
  });
}

// Writes rows[n * count ..]: the boxes of image n that are kept.
template <typename T>
void ChooseBoxes(const CudaQueue& queue, const YoloHead& head, const Lists& given, T* rows) {
  const Lists lists = given;
  const double least = head.least;
  const SuppressionRule rule{.threshold = head.overlap};
  ForTeams(queue, "ChooseYolo", head.images, [=] CREMA_HOST_DEVICE(const Team& team, int64_t n) {
    const YoloBox* all = lists.all + n * lists.count;
    Candidate* ranked = lists.ranked + n * lists.count;
    Box* boxes = lists.boxes + n * lists.count;
    const int64_t found = Compact(
        team, lists.count, [&](int64_t i) { return all[i].score > least; },
        [&](int64_t i, int64_t place) {
          ranked[place] = Candidate{all[i].score, static_cast<int32_t>(i)};
        });
    SortBestFirst(team, found, ranked);
    team.For(found, [&](int64_t i) { boxes[i] = all[ranked[i].index].box; });
    const int64_t kept = SuppressBoxes(team, found, boxes, rule, lists.worst + n * lists.count,
                                       [&](int64_t i, int64_t place) {
                                         const YoloBox& from = all[ranked[i].index];
                                         T* row = rows + (n * lists.count + place) * kColumns;
                                         row[0] = FromFloat<T>(static_cast<float>(n));
                                         row[1] = FromFloat<T>(static_cast<float>(from.label + 1));
                                         row[2] = FromFloat<T>(static_cast<float>(from.score));
                                         row[3] = FromFloat<T>(static_cast<float>(from.box.xmin));
                                         row[4] = FromFloat<T>(static_cast<float>(from.box.ymin));
                                         row[5] = FromFloat<T>(static_cast<float>(from.box.xmax));
                                         row[6] = FromFloat<T>(static_cast<float>(from.box.ymax));
                                       });
    team.For(1, [&](int64_t) { lists.rows.counts[n] = kept; });
  });
}

template <YoloVersion kVersion>
struct GpuYoloOutput {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    std::vector<Shape> shapes;
    for (const ConstTensorView& input : args.inputs) shapes.push_back(input.shape());
    const YoloHead head = YoloHeadOf(layer, kVersion, shapes);
    ScratchCutter cutter(args.scratch);
    const Lists lists(head, &cutter);
    T* const rows = cutter.Take<T>(head.images * head.boxes * kColumns);
    for (size_t g = 0; g < head.grids.size(); ++g) {
      for (size_t a = 0; a < head.grids[g].anchors.size(); ++a) {
        DecodeBoxes(args.queue, head, head.grids[g], a, args.x(g), lists);
      }
    }
    ChooseBoxes(args.queue, head, lists, rows);
    FillStarts(args.queue, lists.rows);
    PackRows(args.queue, lists.rows, kColumns, rows, args.y());
    WriteNoDetection(args.queue, lists.rows, kColumns, args.y());
    const int64_t count = ReadRowCount(args.queue, lists.rows);
    args.output_shapes[0] = Shape({1, 1, count == 0 ? head.images : count, kColumns});
  }

  static size_t ForwardScratch(const OpDesc& query) {
    std::vector<Shape> shapes;
    for (const BlobSpec& input : query.context.inputs) shapes.push_back(input.shape);
    const YoloHead head = YoloHeadOf(query.layer, kVersion, shapes);
    return ScratchCutter::Booked([&](ScratchCutter* cutter) {
      static_cast<void>(Lists(head, cutter));
      cutter->Take<float>(head.images * head.boxes * kColumns);
    });
  }
};

}  // namespace

void RegisterYoloOutputCuda(Registry& registry) {
  registry.AddImplementation("YoloDetectionOutput",
                             CudaImplementation<GpuYoloOutput<YoloVersion::kV2>>());
  registry.AddImplementation("Yolov3DetectionOutput",
                             CudaImplementation<GpuYoloOutput<YoloVersion::kV3>>());
}

}  // namespace crema
