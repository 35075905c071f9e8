// NonMaxSuppression on the GPU; see non_max_suppression.cc. One team processes a class of a sample.
// The host waits for the number of rows.
#include "layers/detection/box_lists.cuh"
#include "layers/detection/device_boxes.cuh"
#include "layers/detection/non_max_suppression.h"
#include "layers/whole_numbers.h"

namespace crema {
namespace {

constexpr int64_t kColumns = 3;

using Candidate = Ranked<float>;

struct Lists {
  Lists(const ChosenBoxSizes& e, ScratchCutter* cutter)
      : ranked(cutter->Take<Candidate>(e.lists() * e.boxes)),
        boxes(cutter->Take<Box>(e.lists() * e.boxes)),
        worst(cutter->Take<double>(e.lists() * e.boxes)),
        rows(ImageRows::Cut(cutter, e.lists(), e.most)) {}

  Candidate* ranked;
  Box* boxes;
  double* worst;
  ImageRows rows;  // an image is a class of a sample
};

// Writes rows[list * most ..]: the chosen boxes of each class of each sample.
template <typename T>
void ChooseBoxes(const CudaQueue& queue, const Layer& layer, const ChosenBoxSizes& sizes,
                 const Lists& all, const T* boxes, const T* scores, T* rows) {
  const ChosenBoxSizes e = sizes;
  const Lists lists = all;
  const SuppressionRule rule = ChosenBoxRule(layer, e);
  const double least = LeastScore(layer);
  const bool center = layer.param().non_max_suppression_param().center_point_box();
  ForTeams(queue, "ChooseBoxes", e.lists(), [=] CREMA_HOST_DEVICE(const Team& team, int64_t list) {
    Candidate* ranked = lists.ranked + list * e.boxes;
    Box* sorted = lists.boxes + list * e.boxes;
    const T* given = boxes + list / e.classes * e.boxes * 4;
    const auto score = [&](int64_t b) { return ToFloat(scores[list * e.boxes + b]); };
    const int64_t found = Compact(
        team, e.boxes, [&](int64_t b) { return static_cast<double>(score(b)) > least; },
        [&](int64_t b, int64_t place) {
          ranked[place] = Candidate{score(b), static_cast<int32_t>(b)};
        });
    SortBestFirst(team, found, ranked);
    team.For(found, [&](int64_t i) {
      sorted[i] = GivenBox(center, FourAt(given + 4 * int64_t{ranked[i].index}));
    });
    const int64_t count = SuppressBoxes(
        team, found, sorted, rule, lists.worst + list * e.boxes, [&](int64_t i, int64_t place) {
          T* row = rows + (list * e.most + place) * kColumns;
          row[0] = FromFloat<T>(static_cast<float>(list / e.classes));
          row[1] = FromFloat<T>(static_cast<float>(list % e.classes));
          row[2] = FromFloat<T>(static_cast<float>(ranked[i].index));
        });
    team.For(1, [&](int64_t) { lists.rows.counts[list] = count; });
  });
}

struct GpuNonMaxSuppression {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const ChosenBoxSizes e(layer, args.inputs[0].shape(), args.inputs[1].shape());
    ScratchCutter cutter(args.scratch);
    const Lists lists(e, &cutter);
    T* const rows = cutter.Take<T>(args.outputs[0].count());
    ChooseBoxes(args.queue, layer, e, lists, args.x(), args.x(1), rows);
    FillStarts(args.queue, lists.rows);
    PackRows(args.queue, lists.rows, kColumns, rows, args.y());
    args.output_shapes[0] = Shape({ReadRowCount(args.queue, lists.rows), kColumns});
  }

  static size_t ForwardScratch(const OpDesc& query) {
    const std::span<const BlobSpec> inputs = query.context.inputs;
    const ChosenBoxSizes e(query.layer, inputs[0].shape, inputs[1].shape);
    return ScratchCutter::Booked([&](ScratchCutter* cutter) {
      static_cast<void>(Lists(e, cutter));
      cutter->Take<float>(e.lists() * e.most * kColumns);
    });
  }

  // Boxes are written as values of the type of the net.
  static Support Supports(const OpDesc& query) {
    if (query.context.inputs[0].shape[1] > LargestWhole(query.context.dtype)) {
      return Support::No("has more boxes than the type can count");
    }
    return SupportsCudaFloats(query);
  }
};

}  // namespace

void RegisterNonMaxSuppressionCuda(Registry& registry) {
  registry.AddImplementation("NonMaxSuppression", CudaImplementation<GpuNonMaxSuppression>());
}

}  // namespace crema
