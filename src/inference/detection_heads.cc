#include "inference/detection_heads.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "math/box_suppression.h"

namespace crema {

// What Decode of a kind reads: the outputs of one image.
struct HeadValues {
  std::vector<std::span<const float>> values;
  std::span<const Shape> shapes;
  int64_t height, width;  // of the input
  double least;           // scores exceed it
};

struct HeadNet {
  std::span<const HeadOutput> outputs;
  int64_t height, width;  // of the input
};

struct HeadKind {
  const char* name;
  const char* shapes;  // for messages
  double overlap;      // above which the worse of two boxes is dropped; 1: none is
  int64_t most;        // boxes of an image
  BoxUnits units;
  const char* pixels;  // flags for the pixels of the published models; empty: 0 to 255, blue first
  std::optional<HeadFit> (*fit)(const HeadNet& net);
  std::vector<HeadObject> (*decode)(const HeadValues& head);
};

namespace {

// The places of a feature map, and the sides of the squares around each of them.
struct Level {
  int64_t stride;
  std::vector<double> sides = {0};
};
using Levels = std::vector<Level>;

const Levels& YoloLevels() {
  static const Levels levels = {{8}, {16}, {32}};
  return levels;
}
const Levels& LargeYoloLevels() {  // P6
  static const Levels levels = {{8}, {16}, {32}, {64}};
  return levels;
}
const Levels& RetinaFaceLevels() {
  static const Levels levels = {{8, {16, 32}}, {16, {64, 128}}, {32, {256, 512}}};
  return levels;
}
const Levels& UltraLightLevels() {
  static const Levels levels = {
      {8, {10, 16, 24}}, {16, {32, 48}}, {32, {64, 96}}, {64, {128, 192, 256}}};
  return levels;
}

int64_t PlacesOf(int64_t side, int64_t stride) { return (side + stride - 1) / stride; }

int64_t BoxesOf(const Levels& levels, int64_t height, int64_t width) {
  int64_t boxes = 0;
  for (const Level& level : levels) {
    boxes += PlacesOf(height, level.stride) * PlacesOf(width, level.stride) *
             static_cast<int64_t>(level.sides.size());
  }
  return boxes;
}

// Calls body(box, row, column, level, side) for each box in the order of the outputs.
template <typename Body>
void ForEachBox(const Levels& levels, int64_t height, int64_t width, Body&& body) {
  int64_t box = 0;
  for (const Level& level : levels) {
    for (int64_t row = 0; row < PlacesOf(height, level.stride); ++row) {
      for (int64_t column = 0; column < PlacesOf(width, level.stride); ++column) {
        for (const double side : level.sides) body(box++, row, column, level, side);
      }
    }
  }
}

// Returns the only output that `suits`; nothing if there are none or several.
template <typename Suits>
std::optional<size_t> OnlyOutput(const HeadNet& net, Suits&& suits) {
  std::optional<size_t> found;
  for (size_t i = 0; i < net.outputs.size(); ++i) {
    if (!suits(net.outputs[i])) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

bool IsMatrix(const HeadOutput& output) {
  return output.shape.axes() == 2 && output.shape[0] > 0 && output.shape[1] > 0;
}

Box BoxAround(double x, double y, double width, double height) {
  return {x - width / 2, y - height / 2, x + width / 2, y + height / 2};
}

// One object a row, or a column of the transpose.
class Table {
 public:
  Table(std::span<const float> values, const Shape& shape, bool transposed)
      : values_(values), shape_(shape), transposed_(transposed) {}

  int64_t objects() const { return shape_[transposed_ ? 1 : 0]; }
  int64_t fields() const { return shape_[transposed_ ? 0 : 1]; }
  double operator()(int64_t object, int64_t field) const {
    const int64_t at = transposed_ ? field * shape_[1] + object : object * shape_[1] + field;
    return double{values_[static_cast<size_t>(at)]};
  }
  // Returns the index of the largest field from `first` up to `end`, from 0.
  int64_t Best(int64_t object, int64_t first, int64_t end) const {
    int64_t best = first;
    for (int64_t f = first + 1; f < end; ++f) {
      if ((*this)(object, f) > (*this)(object, best)) best = f;
    }
    return best - first;
  }
  Box Around(int64_t object) const {
    return BoxAround((*this)(object, 0), (*this)(object, 1), (*this)(object, 2),
                     (*this)(object, 3));
  }
  // Returns the points of fields x, y, visibility from `first` to the end.
  std::vector<KeyPoint> Points(int64_t object, int64_t first) const {
    std::vector<KeyPoint> points;
    for (int64_t f = first; f + 3 <= fields(); f += 3) {
      points.push_back({(*this)(object, f), (*this)(object, f + 1)});
    }
    return points;
  }

 private:
  std::span<const float> values_;
  const Shape& shape_;
  bool transposed_;
};

// Adds an object unless its score is too low, or a number is not finite.
void Add(const HeadValues& head, int64_t label, double score, const Box& box,
         std::vector<KeyPoint> points, std::vector<HeadObject>* found) {
  const double sum = box.xmin + box.ymin + box.xmax + box.ymax;
  if (!(score > head.least) || !std::isfinite(sum)) return;
  found->push_back({static_cast<int>(label), score, box, std::move(points)});
}

// YOLOv5, v7: rows x, y, width, height, object, classes. Three boxes at each place.
std::optional<HeadFit> FitYolo5(const HeadNet& net) {
  const auto output =
      OnlyOutput(net, [](const HeadOutput& o) { return IsMatrix(o) && o.shape[1] >= 6 && !o.raw; });
  if (!output) return std::nullopt;
  const Shape& shape = net.outputs[*output].shape;
  const bool certain = shape[0] == 3 * BoxesOf(YoloLevels(), net.height, net.width) ||
                       shape[0] == 3 * BoxesOf(LargeYoloLevels(), net.height, net.width);
  return HeadFit{
      .outputs = {*output}, .classes = static_cast<int>(shape[1]) - 5, .certain = certain};
}

template <bool kByObject>  // the only class is certain
std::vector<HeadObject> DecodeYolo5(const HeadValues& head) {
  const Table rows(head.values[0], head.shapes[0], false);
  std::vector<HeadObject> found;
  for (int64_t i = 0; i < rows.objects(); ++i) {
    const int64_t label = rows.Best(i, 5, rows.fields());
    const double share = kByObject && rows.fields() == 6 ? 1 : rows(i, 5 + label);
    Add(head, label, rows(i, 4) * share, rows.Around(i), {}, &found);
  }
  return found;
}

std::optional<HeadFit> FitYolo7(const HeadNet& net) {
  std::optional<HeadFit> fit = FitYolo5(net);
  if (fit) fit->certain = false;  // YOLOv5 has the same shapes
  return fit;
}

// YOLOv8, v9, v11, v12: columns x, y, width, height, classes. One box at each place.
std::optional<HeadFit> FitYolo8(const HeadNet& net) {
  const int64_t small = BoxesOf(YoloLevels(), net.height, net.width);
  const int64_t large = BoxesOf(LargeYoloLevels(), net.height, net.width);
  const auto known = [&](int64_t boxes) { return boxes == small || boxes == large; };
  const auto output = OnlyOutput(net, [&](const HeadOutput& o) {
    return IsMatrix(o) && o.shape[0] >= 5 && (known(o.shape[1]) || o.shape[0] < o.shape[1]);
  });
  if (!output) return std::nullopt;
  const Shape& shape = net.outputs[*output].shape;
  return HeadFit{
      .outputs = {*output}, .classes = static_cast<int>(shape[0]) - 4, .certain = known(shape[1])};
}

std::vector<HeadObject> DecodeYolo8(const HeadValues& head) {
  const Table columns(head.values[0], head.shapes[0], true);
  std::vector<HeadObject> found;
  for (int64_t i = 0; i < columns.objects(); ++i) {
    const int64_t label = columns.Best(i, 4, columns.fields());
    Add(head, label, columns(i, 4 + label), columns.Around(i), {}, &found);
  }
  return found;
}

// The same for poses: one class, then x, y and visibility of each point.
std::optional<HeadFit> FitYoloPose(const HeadNet& net) {
  std::optional<HeadFit> fit = FitYolo8(net);
  if (!fit || fit->classes < 4 || fit->classes % 3 != 1) return std::nullopt;
  fit->classes = 1;
  fit->certain = false;  // a detector of many classes has the same shapes
  return fit;
}

std::vector<HeadObject> DecodeYoloPose(const HeadValues& head) {
  const Table columns(head.values[0], head.shapes[0], true);
  std::vector<HeadObject> found;
  for (int64_t i = 0; i < columns.objects(); ++i) {
    if (!(columns(i, 4) > head.least)) continue;
    Add(head, 0, columns(i, 4), columns.Around(i), columns.Points(i, 5), &found);
  }
  return found;
}

// YOLOv10, YOLO26: rows of corners, score, class and, for poses, points. Already the best.
std::optional<HeadFit> FitYolo10(const HeadNet& net) {
  const auto output = OnlyOutput(net, [](const HeadOutput& o) {
    return IsMatrix(o) && o.shape[1] >= 6 && o.shape[1] % 3 == 0;
  });
  if (!output) return std::nullopt;
  constexpr int64_t kRows = 300;  // as these models are published
  return HeadFit{.outputs = {*output}, .certain = net.outputs[*output].shape[0] == kRows};
}

std::vector<HeadObject> DecodeYolo10(const HeadValues& head) {
  const Table rows(head.values[0], head.shapes[0], false);
  std::vector<HeadObject> found;
  for (int64_t i = 0; i < rows.objects(); ++i) {
    const double label = rows(i, 5);
    if (!(label >= 0 && label < std::numeric_limits<int>::max())) continue;
    Add(head, static_cast<int64_t>(label), rows(i, 4),
        {rows(i, 0), rows(i, 1), rows(i, 2), rows(i, 3)}, rows.Points(i, 6), &found);
  }
  return found;
}

// YOLOX: rows as YOLOv5, but places and sizes are relative to the grid. One box at each place.
std::optional<HeadFit> FitYoloX(const HeadNet& net) {
  const int64_t boxes = BoxesOf(YoloLevels(), net.height, net.width);
  const auto output = OnlyOutput(net, [&](const HeadOutput& o) {
    return IsMatrix(o) && o.shape[0] == boxes && o.shape[1] >= 6;
  });
  if (!output) return std::nullopt;
  const HeadOutput& o = net.outputs[*output];
  return HeadFit{
      .outputs = {*output}, .classes = static_cast<int>(o.shape[1]) - 5, .certain = o.raw};
}

std::vector<HeadObject> DecodeYoloX(const HeadValues& head) {
  const Table rows(head.values[0], head.shapes[0], false);
  std::vector<HeadObject> found;
  ForEachBox(YoloLevels(), head.height, head.width,
             [&](int64_t i, int64_t row, int64_t column, const Level& level, double) {
               const int64_t label = rows.Best(i, 5, rows.fields());
               const auto stride = static_cast<double>(level.stride);
               const Box box =
                   BoxAround((rows(i, 0) + static_cast<double>(column)) * stride,
                             (rows(i, 1) + static_cast<double>(row)) * stride,
                             std::exp(rows(i, 2)) * stride, std::exp(rows(i, 3)) * stride);
               Add(head, label, rows(i, 4) * rows(i, 5 + label), box, {}, &found);
             });
  return found;
}

// Faces: boxes of 4 columns and scores of 2, of the background and of a face; RetinaFace has 10
// for the landmarks too.
std::optional<HeadFit> FitFaces(const HeadNet& net, int64_t boxes, bool landmarks) {
  const auto of = [&](int64_t columns) {
    return OnlyOutput(net, [&](const HeadOutput& o) {
      return IsMatrix(o) && o.shape[0] == boxes && o.shape[1] == columns;
    });
  };
  const auto box = of(4), score = of(2), points = of(10);
  if (!box || !score || points.has_value() != landmarks) return std::nullopt;
  HeadFit fit{.outputs = {*box, *score}, .classes = 2, .background = true, .certain = true};
  if (landmarks) fit.outputs.push_back(*points);
  return fit;
}

std::optional<HeadFit> FitRetinaFace(const HeadNet& net) {
  return FitFaces(net, BoxesOf(RetinaFaceLevels(), net.height, net.width), true);
}

template <bool kRaw>
std::optional<HeadFit> FitUltraLight(const HeadNet& net) {
  std::optional<HeadFit> fit =
      FitFaces(net, BoxesOf(UltraLightLevels(), net.height, net.width), false);
  if (fit) fit->certain = net.outputs[fit->outputs[0]].raw == kRaw;
  return fit;
}

constexpr BoxOffsets kFaceVariance = {0.1, 0.1, 0.2, 0.2};

template <const Levels& (*kLevels)(), bool kLimited>  // priors are limited to the input
std::vector<HeadObject> DecodeFaces(const HeadValues& head) {
  const std::span<const float> offsets = head.values[0], scores = head.values[1];
  const double width = static_cast<double>(head.width), height = static_cast<double>(head.height);
  std::vector<HeadObject> found;
  ForEachBox(kLevels(), head.height, head.width,
             [&](int64_t i, int64_t row, int64_t column, const Level& level, double side) {
               const auto b = static_cast<size_t>(i);
               if (!(double{scores[2 * b + 1]} > head.least)) return;
               double x = (static_cast<double>(column) + 0.5) * static_cast<double>(level.stride);
               double y = (static_cast<double>(row) + 0.5) * static_cast<double>(level.stride);
               double across = side, down = side;
               if (kLimited) {
                 x = std::min(x, width);
                 y = std::min(y, height);
                 across = std::min(side, width);
                 down = std::min(side, height);
               }
               const float* o = offsets.data() + 4 * b;
               std::vector<KeyPoint> points;
               for (size_t k = 0; head.values.size() > 2 && k < 5; ++k) {
                 const float* p = head.values[2].data() + 10 * b + 2 * k;
                 points.push_back({x + double{p[0]} * kFaceVariance[0] * across,
                                   y + double{p[1]} * kFaceVariance[1] * down});
               }
               Add(head, 1, scores[2 * b + 1],
                   Decode(BoxCode::kCenterSize, {o[0], o[1], o[2], o[3]},
                          BoxAround(x, y, across, down), kFaceVariance),
                   std::move(points), &found);
             });
  return found;
}

// The Ultra-Light face detector with its decoding: corners in units of the image.
std::vector<HeadObject> DecodeFaceCorners(const HeadValues& head) {
  const Table boxes(head.values[0], head.shapes[0], false);
  const Table scores(head.values[1], head.shapes[1], false);
  std::vector<HeadObject> found;
  for (int64_t i = 0; i < boxes.objects(); ++i) {
    const Box box{boxes(i, 0), boxes(i, 1), boxes(i, 2), boxes(i, 3)};
    Add(head, 1, scores(i, 1),
        Scale(box, static_cast<double>(head.width), static_cast<double>(head.height)), {}, &found);
  }
  return found;
}

bool HasPart(const std::string& name, std::initializer_list<const char*> parts) {
  return std::ranges::any_of(
      parts, [&](const char* part) { return name.find(part) != std::string::npos; });
}

// CenterNet: a heat map of C classes, the sizes of boxes and the offsets of their centres.
template <bool kLogits>
std::optional<HeadFit> FitCenterNet(const HeadNet& net) {
  if (net.outputs.size() != 3) return std::nullopt;
  std::array<std::optional<size_t>, 3> roles;  // heat, size, offset
  for (size_t i = 0; i < 3; ++i) {
    const std::string& name = net.outputs[i].name;
    const size_t role = HasPart(name, {"hm", "heat"})          ? 0
                        : HasPart(name, {"wh", "size", "dim"}) ? 1
                        : HasPart(name, {"reg", "off"})        ? 2
                                                               : 3;
    if (role < 3) roles[role] = i;
  }
  const bool named = std::ranges::all_of(roles, [](const auto& role) { return role.has_value(); });
  if (!named) roles = {0, 1, 2};  // the order of the published models
  const auto shape = [&](size_t role) -> const Shape& { return net.outputs[*roles[role]].shape; };
  for (size_t role = 0; role < 3; ++role) {
    const bool fits = shape(role).axes() == 3 && (role == 0 || shape(role)[0] == 2) &&
                      shape(role)[1] == shape(0)[1] && shape(role)[2] == shape(0)[2] &&
                      shape(role).count() > 0;
    if (!fits) return std::nullopt;
  }
  const bool quarter = shape(0)[1] * 4 == net.height && shape(0)[2] * 4 == net.width;
  return HeadFit{.outputs = {*roles[0], *roles[1], *roles[2]},
                 .classes = static_cast<int>(shape(0)[0]),
                 .certain = named && quarter && net.outputs[*roles[0]].raw == kLogits};
}

template <bool kLogits>
std::vector<HeadObject> DecodeCenterNet(const HeadValues& head) {
  const Shape& shape = head.shapes[0];
  const int64_t rows = shape[1], columns = shape[2], places = rows * columns;
  const float* const heat = head.values[0].data();
  const auto at = [&](size_t output, int64_t channel, int64_t place) {
    return double{head.values[output][static_cast<size_t>(channel * places + place)]};
  };
  const double sx = static_cast<double>(head.width) / static_cast<double>(columns);
  const double sy = static_cast<double>(head.height) / static_cast<double>(rows);
  std::vector<HeadObject> found;
  for (int64_t i = 0; i < shape[0] * places; ++i) {
    const int64_t place = i % places, row = place / columns, column = place % columns;
    const double value = heat[i];
    const double score = kLogits ? 1 / (1 + std::exp(-value)) : value;
    if (!(score > head.least)) continue;
    bool peak = true;  // the largest of the 3 x 3 values around it
    for (int64_t y = std::max<int64_t>(0, row - 1); y <= std::min(rows - 1, row + 1); ++y) {
      for (int64_t x = std::max<int64_t>(0, column - 1); x <= std::min(columns - 1, column + 1);
           ++x) {
        peak = peak && !(double{heat[i - place + y * columns + x]} > value);
      }
    }
    if (!peak) continue;
    const Box box =
        BoxAround(static_cast<double>(column) + at(2, 0, place),
                  static_cast<double>(row) + at(2, 1, place), at(1, 0, place), at(1, 1, place));
    Add(head, i / places, score, Scale(box, sx, sy), {}, &found);
  }
  return found;
}

constexpr double kNoSuppression = 1;
constexpr auto kContinuous = BoxUnits::kContinuous;
constexpr const char* kUnitRgb = "--rgb --pixel_range=1";
constexpr const char* kFacePixels = "--rgb --mean=127 --scale=0.0078125";
constexpr const char* kCenterNetPixels =
    "--pixel_range=1 --mean=0.408,0.447,0.47 --std=0.289,0.274,0.278";

constexpr HeadKind kKinds[] = {
    {"yolov5", "N x boxes x (5 + classes), decoded", 0.45, 300, kContinuous, kUnitRgb, FitYolo5,
     DecodeYolo5<false>},
    {"yolov7", "N x boxes x (5 + classes), decoded", 0.45, 300, kContinuous, kUnitRgb, FitYolo7,
     DecodeYolo5<true>},
    {"yolov8", "N x (4 + classes) x boxes", 0.7, 300, kContinuous, kUnitRgb, FitYolo8, DecodeYolo8},
    {"yolov8_pose", "N x (5 + 3 points) x boxes", 0.7, 300, kContinuous, kUnitRgb, FitYoloPose,
     DecodeYoloPose},
    {"yolov10", "N x boxes x 6, for poses x (6 + 3 points)", kNoSuppression, 300, kContinuous,
     kUnitRgb, FitYolo10, DecodeYolo10},
    {"yolox", "N x boxes x (5 + classes), a box for each place of strides 8, 16 and 32", 0.65, -1,
     kContinuous, "", FitYoloX, DecodeYoloX},
    {"retinaface", "N x boxes x 4, 2 and 10, two boxes for each place of strides 8, 16 and 32", 0.4,
     750, BoxUnits::kPixels, "--mean=104,117,123", FitRetinaFace,
     DecodeFaces<RetinaFaceLevels, false>},
    {"ultra_light_face",
     "N x boxes x 4 (offsets) and 2, boxes as the priors of strides 8, 16, 32 and 64", 0.3, 200,
     kContinuous, kFacePixels, FitUltraLight<true>, DecodeFaces<UltraLightLevels, true>},
    {"ultra_light_face_decoded",
     "N x boxes x 4 (corners) and 2, boxes as the priors of strides 8, 16, 32 and 64", 0.3, 200,
     kContinuous, kFacePixels, FitUltraLight<false>, DecodeFaceCorners},
    {"centernet", "N x classes x H x W (logits), N x 2 x H x W (sizes), N x 2 x H x W (offsets)",
     kNoSuppression, 100, kContinuous, kCenterNetPixels, FitCenterNet<true>, DecodeCenterNet<true>},
    {"centernet_sigmoid",
     "N x classes x H x W (0 to 1), N x 2 x H x W (sizes), N x 2 x H x W (offsets)", kNoSuppression,
     100, kContinuous, kCenterNetPixels, FitCenterNet<false>, DecodeCenterNet<false>},
};

std::string ShapesOf(std::span<const HeadOutput> outputs) {
  std::vector<std::string> texts;
  for (const HeadOutput& o : outputs) {
    texts.push_back(StrCat("'", o.name, "' N", o.shape.axes() > 0 ? "x" : "", ToString(o.shape)));
  }
  return Join(texts, ", ");
}

const HeadKind& KindOf(const std::string& name) {
  const auto* kind = std::ranges::find(kKinds, name, &HeadKind::name);
  if (kind != std::end(kKinds)) return *kind;
  const std::vector<std::string> names = DetectionHead::Names();
  Fail(ErrorCode::kInvalidArgument, StrCat("'", name, "' is no head of a detector",
                                           DidYouMean(name, names), "; known: ", Join(names, " ")));
}

}  // namespace

std::vector<HeadObject> KeepBest(std::vector<HeadObject> found, double overlap, BoxUnits units,
                                 int64_t most) {
  std::ranges::stable_sort(found, std::ranges::greater{}, &HeadObject::score);
  std::map<int, std::vector<int64_t>> by_label;
  std::vector<Box> boxes;
  for (const HeadObject& object : found) {
    by_label[object.label].push_back(static_cast<int64_t>(boxes.size()));
    boxes.push_back(object.box);
  }
  std::vector<int64_t> kept;
  for (const auto& [label, candidates] : by_label) {
    const std::vector<int64_t> left =
        overlap >= kNoSuppression
            ? candidates
            : Suppress(boxes, candidates, {.threshold = overlap, .units = units});
    kept.insert(kept.end(), left.begin(), left.end());
  }
  std::ranges::sort(kept);
  if (most >= 0 && std::ssize(kept) > most) kept.resize(static_cast<size_t>(most));
  std::vector<HeadObject> best;
  for (const int64_t i : kept) best.push_back(std::move(found[static_cast<size_t>(i)]));
  return best;
}

std::vector<std::string> DetectionHead::Names() {
  std::vector<std::string> names;
  for (const HeadKind& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

std::vector<std::string> DetectionHead::Candidates(std::span<const HeadOutput> outputs,
                                                   int64_t height, int64_t width) {
  std::vector<std::string> names;
  for (const HeadKind& kind : kKinds) {
    if (kind.fit({outputs, height, width})) names.emplace_back(kind.name);
  }
  return names;
}

std::optional<DetectionHead> DetectionHead::Find(const std::string& name,
                                                 std::span<const HeadOutput> outputs,
                                                 int64_t height, int64_t width) {
  const HeadNet net{outputs, height, width};
  if (!name.empty()) {
    const HeadKind& kind = KindOf(name);
    const std::optional<HeadFit> fit = kind.fit(net);
    if (fit) return DetectionHead(kind, *fit, outputs, height, width);
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the head ", name, " has outputs ", kind.shapes, "; for the input of ", height,
                " x ", width, " this net has ", ShapesOf(outputs)));
  }
  std::optional<DetectionHead> found;
  for (const HeadKind& kind : kKinds) {
    const std::optional<HeadFit> fit = kind.fit(net);
    if (!fit || !fit->certain) continue;
    if (found) return std::nullopt;
    found = DetectionHead(kind, *fit, outputs, height, width);
  }
  return found;
}

DetectionHead::DetectionHead(const HeadKind& kind, HeadFit fit, std::span<const HeadOutput> outputs,
                             int64_t height, int64_t width)
    : kind_(&kind), fit_(std::move(fit)), height_(height), width_(width) {
  for (const size_t i : fit_.outputs) {
    outputs_.push_back(outputs[i].name);
    shapes_.push_back(outputs[i].shape);
  }
}

std::string DetectionHead::name() const { return kind_->name; }

std::string DetectionHead::pixels() const { return kind_->pixels; }

std::vector<HeadObject> DetectionHead::Decode(std::span<const std::span<const float>> values,
                                              size_t index, double least,
                                              const std::optional<double>& overlap) const {
  CREMA_CHECK(values.size() == shapes_.size());
  HeadValues head{{}, shapes_, height_, width_, least};
  for (size_t k = 0; k < shapes_.size(); ++k) {
    const auto count = static_cast<size_t>(shapes_[k].count());
    CREMA_CHECK(values[k].size() % count == 0 && (index + 1) * count <= values[k].size());
    head.values.push_back(values[k].subspan(index * count, count));
  }
  return KeepBest(kind_->decode(head), overlap.value_or(kind_->overlap), kind_->units, kind_->most);
}

}  // namespace crema
