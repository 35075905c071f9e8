// The steps and their rounding are those of MTCNN (Zhang et al., 2016) as FaceNet wrote them in
// Python; programs that train and use such cascades copy them. Boxes count pixels from 1, and
// include the last one.
#include "inference/cascade.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "cascade.pb.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "inference/deploy_net.h"
#include "inference/image_input.h"
#include "math/box_suppression.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

using Candidate = CascadeCandidate;

constexpr int kFound = 1;  // the label of all boxes
// NMS compares each candidate with all kept ones, and each is computed by the next net.
constexpr int64_t kMostCandidates = 4096;  // of a size, and of a stage
constexpr int64_t kLargestSide = 1 << 14;  // of a picture in a size for the first net, in pixels
constexpr int64_t kMostPixels = 1 << 26;   // of it

// Where the values of an input or output lie.
bool HasChannelsLast(const std::vector<int64_t>& shape) {
  return shape.size() == 4 && shape[3] == 3 && shape[1] != 3;
}

bool IsOnnx(const CascadeStage& stage) { return stage.net().ends_with(".onnx"); }

// The layers after the input, with their parameters.
std::string LayersAfterInput(NetParameter net) {
  net.mutable_layer(0)->clear_input_param();
  return net.SerializeAsString();
}

// `a`, `b`: the spatial axes of the input, if the file leaves them open.
NetFile NetFor(const OnnxNets& nets, int64_t a, int64_t b) {
  NetFile net;
  for (const Shape& shape : {Shape{1, a, b, 3}, Shape{1, 3, a, b}}) {
    net = nets(shape);
    const auto& dims = net.net.layer(0).input_param().shape(0).dim();
    if (std::ranges::equal(dims, shape.dims())) break;
  }
  return net;
}

// An imported net may have numbers in it that depend on the size of its input. If it has the same
// layers for another size, it has none.
bool TakesAnySize(const OnnxNets& nets, int64_t window) {
  return LayersAfterInput(NetFor(nets, window, window).net) ==
         LayersAfterInput(NetFor(nets, 3 * window + 1, 5 * window + 4).net);
}

[[noreturn]] void FailStage(const std::string& path, int stage, const std::string& what) {
  Fail(ErrorCode::kInvalidArgument, StrCat("stage ", stage + 1, ": ", what), {.file = path});
}

bool IsShare(double value) { return value >= 0 && value <= 1; }

void CheckPixels(const CascadeFile& file, const std::string& path) {
  if (!std::isfinite(file.mean()) || !std::isfinite(file.scale()) || file.scale() == 0) {
    Fail(ErrorCode::kInvalidArgument, "mean and scale must be numbers, and scale not 0",
         {.file = path});
  }
  try {
    ParseInterpolation(file.interpolation());
  } catch (const Error& error) {
    Fail(ErrorCode::kInvalidArgument, error.problems()[0].message, {.file = path});
  }
}

void CheckFile(const CascadeFile& file, const std::string& path) {
  const auto require = [&](bool holds, const char* what) {
    if (!holds) Fail(ErrorCode::kInvalidArgument, what, {.file = path});
  };
  constexpr int kMostWindow = 512;
  constexpr double kMostScale = 4;
  require(file.stage_size() >= 2, "needs two stages or more");
  require(file.min_size() >= 1 && file.min_size() <= kLargestSide,
          "min_size must be from 1 to 16384");
  require(file.factor() >= 0.1 && file.factor() <= 0.95, "factor must be from 0.1 to 0.95");
  require(file.window() > 0 && file.window() <= kMostWindow, "window must be from 1 to 512");
  require(file.stride() > 0 && file.stride() <= file.window(), "stride must be from 1 to window");
  require(file.window() <= kMostScale * file.min_size(), "window may be 4 times min_size at most");
  require(IsShare(file.size_nms()), "size_nms must be from 0 to 1");
  CheckPixels(file, path);
  for (int s = 0; s < file.stage_size(); ++s) {
    const CascadeStage& stage = file.stage(s);
    if (stage.net().empty()) FailStage(path, s, "net is missing");
    if (!stage.has_threshold()) FailStage(path, s, "threshold is missing");
    if (!IsShare(stage.threshold())) FailStage(path, s, "threshold must be from 0 to 1");
    if (!IsShare(stage.nms())) FailStage(path, s, "nms must be from 0 to 1");
    if (!IsOnnx(stage) && stage.weights().empty()) FailStage(path, s, "weights are missing");
  }
}

void CheckModel(const Model& model, int stage, const std::string& path) {
  const bool one = model.inputs().size() == 1 && model.inputs()[0].shape.size() == 4 &&
                   model.inputs()[0].dtype == DType::kF32;
  const bool colored =
      one && (HasChannelsLast(model.inputs()[0].shape) || model.inputs()[0].shape[1] == 3);
  if (!colored)
    FailStage(path, stage, "the net must have one input, N x 3 x H x W or N x H x W x 3");
}

// Returns the indices of the kept ones of the best boxes, best first.
std::vector<int64_t> Keep(const std::vector<Candidate>& all, double overlap, bool by_smaller) {
  std::vector<Box> boxes;
  std::vector<double> scores;
  for (const Candidate& c : all) {
    boxes.push_back(c.box);
    scores.push_back(c.score);
  }
  const std::vector<int64_t> order = BestFirst(scores, -1, kMostCandidates);
  constexpr auto kPixels = BoxUnits::kPixels;
  if (!by_smaller) return Suppress(boxes, order, {.threshold = overlap, .units = kPixels});
  std::vector<int64_t> kept;
  for (const int64_t i : order) {
    const Box& box = boxes[static_cast<size_t>(i)];
    const bool stays = std::ranges::all_of(kept, [&](int64_t k) {
      const Box& better = boxes[static_cast<size_t>(k)];
      return Intersection(box, better, kPixels) <=
             overlap * std::min(Area(box, kPixels), Area(better, kPixels));
    });
    if (stays) kept.push_back(i);
  }
  return kept;
}

void KeepOnly(const std::vector<int64_t>& kept, std::vector<Candidate>* all) {
  std::vector<Candidate> left;
  for (const int64_t i : kept) left.push_back(std::move((*all)[static_cast<size_t>(i)]));
  *all = std::move(left);
}

// `extra`: 1 if the last pixel counts.
void ShiftEdges(double extra, Candidate* c) {
  const double width = c->box.width() + extra, height = c->box.height() + extra;
  const BoxOffsets& s = c->shifts;
  c->box = {c->box.xmin + s[0] * width, c->box.ymin + s[1] * height, c->box.xmax + s[2] * width,
            c->box.ymax + s[3] * height};
}

// The square around the middle, with the longer side.
void MakeSquare(Box* box) {
  const double width = box->width(), height = box->height(), side = std::max(width, height);
  const double left = box->xmin + width / 2 - side / 2, top = box->ymin + height / 2 - side / 2;
  *box = {left, top, left + side, top + side};
}

Box Truncated(const Box& box) {
  return {std::trunc(box.xmin), std::trunc(box.ymin), std::trunc(box.xmax), std::trunc(box.ymax)};
}

// False for a NaN.
bool IsNear(double value) { return std::abs(value) <= 1e9; }

// Returns false for a box that has no pixels, has more than four pictures or is out of all bounds.
bool CanCut(const Image& picture, const Box& box) {
  const double height = box.height() + 1, width = box.width() + 1;
  const double most = 4.0 * picture.height * picture.width + 1e6;
  return IsNear(box.xmin) && IsNear(box.ymin) && IsNear(box.xmax) && IsNear(box.ymax) &&
         height >= 1 && width >= 1 && height * width <= most;
}

// Returns the part of the picture inside of a box of whole numbers; black where there is none.
// Requires: CanCut.
Image Cut(const Image& picture, const Box& box) {
  const double height = box.height() + 1, width = box.width() + 1;
  Image part{picture.channels, static_cast<int>(height), static_cast<int>(width), {}};
  part.pixels.resize(static_cast<size_t>(part.channels) * static_cast<size_t>(part.height) *
                     static_cast<size_t>(part.width));
  const auto top = static_cast<int64_t>(box.ymin) - 1, left = static_cast<int64_t>(box.xmin) - 1;
  const int64_t begin = std::max<int64_t>(0, left);
  const int64_t end = std::min<int64_t>(picture.width, left + part.width);
  for (int64_t c = 0; c < part.channels; ++c) {
    for (int64_t y = 0; y < part.height && begin < end; ++y) {
      if (top + y < 0 || top + y >= picture.height) continue;
      const auto from = picture.pixels.begin() + (c * picture.height + top + y) * picture.width;
      std::copy(from + begin, from + end,
                part.pixels.begin() + (c * part.height + y) * part.width + begin - left);
    }
  }
  return part;
}

// Returns false if a number of the net is not finite, or too large for the edges of a box.
bool IsUsable(const Candidate& c) {
  const auto is_near = [](const KeyPoint& point) { return IsNear(point.x) && IsNear(point.y); };
  return IsNear(c.score) && std::ranges::all_of(c.shifts, IsNear) &&
         std::ranges::all_of(c.keypoints, is_near);
}

void StopIf(const std::function<bool()>& cancelled) {
  if (cancelled && cancelled()) Fail(ErrorCode::kCancelled, "the detection was given up");
}

// Returns height and width of a picture in a size. Throws kInvalidArgument if the size is too
// large.
std::pair<int, int> Scaled(const Image& picture, double scale) {
  const double height = std::ceil(picture.height * scale);
  const double width = std::ceil(picture.width * scale);
  if (std::max(height, width) > kLargestSide || height * width > kMostPixels) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("a picture of ", picture.height, " x ", picture.width,
                " pixels is too large for the cascade: its first net would compute ",
                static_cast<int64_t>(height), " x ", static_cast<int64_t>(width),
                "; give a smaller one, or raise min_size"));
  }
  return {static_cast<int>(height), static_cast<int>(width)};
}

double InPicture(double value, double end) { return std::clamp(value, 0.0, end); }

}  // namespace

Cascade::Cascade(const std::string& path, const Registry& registry, CascadeOptions options,
                 LogSink& log)
    : path_(path), registry_(registry), options_(std::move(options)), log_(log) {
  auto file = std::make_unique<CascadeFile>();
  std::vector<Problem> problems;
  ParseText(ReadFile(path), path, file.get(), nullptr, &problems);
  if (!problems.empty() && file->stage_size() == 0) {  // of another kind: one of them is enough
    problems.resize(1);
    problems.push_back(
        {ErrorCode::kInvalidArgument,
         {.file = path},
         "has no stage of a cascade: stage { net: ... weights: ... threshold: ... }"});
  }
  if (!problems.empty()) throw Error(std::move(problems));
  CheckFile(*file, path);
  file_ = std::move(file);
  const int64_t window = file_->window();
  for (int s = 0; s < file_->stage_size(); ++s) {
    const CascadeStage& stage = file_->stage(s);
    const OnnxNets nets = IsOnnx(stage) ? OpenOnnx(s) : nullptr;
    models_.push_back(
        MakeStage(s, nets ? NetFor(nets, window, window) : ReadNet(FileOf(stage.net()))));
    CheckModel(*models_.back(), s, path);
    if (s == 0 && nets && !TakesAnySize(nets, window)) first_nets_ = nets;
  }
  CascadeRunner runner(*this);
  runner.Check();
  key_points_ = runner.KeyPoints();
}

Cascade::~Cascade() = default;

std::string Cascade::FileOf(const std::string& name) const {
  if (!options_.folder.empty() && fs::path(name) != fs::path(name).filename()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", name, "' is not the name of a file beside that of the cascade"),
         {.file = path_});
  }
  return (fs::path(path_).parent_path() / name).string();
}

OnnxNets Cascade::OpenOnnx(int stage) const {
  const std::string path = FileOf(file_->stage(stage).net());
  if (!options_.open_onnx) {
    Fail(ErrorCode::kUnsupported, "an .onnx file cannot be read here", {.file = path});
  }
  return options_.open_onnx(path);
}

std::shared_ptr<const Model> Cascade::MakeStage(int stage, NetFile net) const {
  if (!options_.folder.empty()) ConfineFilesTo(options_.folder, &net);
  WeightsFiles weights;
  const CascadeStage& of = file_->stage(stage);
  if (!IsOnnx(of)) weights.paths = {FileOf(of.weights())};
  return Model::Make(net, weights, {}, options_.model, registry_, log_);
}

std::shared_ptr<const Model> Cascade::FirstFor(int64_t a, int64_t b) const {
  return first_nets_ ? MakeStage(0, NetFor(first_nets_, a, b)) : models_[0];
}

double Cascade::least_score() const { return file_->stage(file_->stage_size() - 1).threshold(); }

std::vector<float> Cascade::RowsOf(std::span<const FoundBox> found) const {
  std::vector<float> rows;
  const auto add = [&](double value) { rows.push_back(static_cast<float>(value)); };
  for (const auto& [label, score, box, points] : found) {
    for (const double value : {score, box.xmin, box.ymin, box.xmax, box.ymax}) add(value);
    for (const KeyPoint& point : points) {
      add(point.x);
      add(point.y);
    }
  }
  return rows;
}

std::vector<FoundBox> Cascade::BoxesOf(std::span<const std::span<const float>> values, size_t, int,
                                       int, const ImagePlacement&, double confidence) const {
  const auto size = static_cast<size_t>(RowSize());
  std::vector<FoundBox> found;
  for (size_t at = 0; at < values[0].size(); at += size) {
    const std::span<const float> row = values[0].subspan(at, size);
    if (!(double{row[0]} > confidence)) continue;
    FoundBox& box = found.emplace_back();
    box = {kFound, double{row[0]}, {row[1], row[2], row[3], row[4]}};
    for (size_t k = 5; k < size; k += 2) box.keypoints.push_back({row[k], row[k + 1]});
  }
  return found;
}

// A net of a stage with its inputs and outputs in the layout of the file.
class CascadeRunner::Stage {
 private:
  struct Output {
    int64_t channels;
    std::string name = {};
    std::span<const float> values = {};  // of the last Run
  };

 public:
  Stage(const Cascade& cascade, size_t index)
      : cascade_(cascade),
        index_(index),
        model_(cascade.models()[index]),
        last_(HasChannelsLast(Input().shape)),
        transposed_(cascade.file().transposed()) {
    const CascadeFile& file = cascade.file();
    pixels_ = {.scale = file.scale(),
               .mean = {file.mean(), file.mean(), file.mean()},
               .rgb = file.rgb(),
               .interpolation = ParseInterpolation(file.interpolation())};
    FindOutputs();
  }

  // Height and width of the input.
  std::pair<int, int> Size() const {
    const size_t first = last_ ? 1 : 2;
    const auto a = static_cast<int>(Input().shape[first]);
    const auto b = static_cast<int>(Input().shape[first + 1]);
    return transposed_ ? std::pair(b, a) : std::pair(a, b);
  }

  // Computes the parts of a picture inside of `boxes`, or all of it if there are none. Throws
  // kInvalidArgument if the outputs do not fit.
  void Run(const Image& picture, std::span<const Box> boxes, int height, int width) {
    const size_t n = std::max<size_t>(1, boxes.size());
    Tensor input = MakeInput(static_cast<int64_t>(n), height, width);
    const size_t count = input.view().span<float>().size() / n;
    std::vector<float> planes(count);
    for (size_t i = 0; i < n; ++i) {
      if (boxes.empty()) {
        FillImageInput(picture, pixels_, height, width, planes);
      } else {
        FillImageInput(Cut(picture, boxes[i]), pixels_, height, width, planes);
      }
      Arrange(planes, height, width, input.view().span<float>().subspan(i * count, count));
    }
    Compute(input, height, width);
  }

  // Computes zeros. Throws kInvalidArgument if the net does not fit its place in the cascade.
  void Check() {
    const auto [own_height, own_width] = Size();
    if (index_ > 0) return ComputeZeros(own_height, own_width);
    const int window = cascade_.file().window(), stride = cascade_.file().stride();
    const auto fits = [&](int64_t places, int pixels) {
      return std::abs(stride * (places - 1) - (pixels - window)) < stride;
    };
    for (const auto& [height, width] :
         {std::pair(window, window), std::pair(2 * window, 3 * window)}) {
      ComputeZeros(height, width);
      if (fits(rows_, height) && fits(columns_, width)) continue;
      FailHere(StrCat("the net has ", rows_, " x ", columns_, " outputs for ", height, " x ", width,
                      " pixels, which are not those of a window of ", window, " and a stride of ",
                      stride));
    }
  }

  // Frees the memory for large pictures.
  void ForgetLarge() {
    if (kept_pixels_ > kMostKept) Forget();
  }

  // Returns those of the outputs of the last Run.
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }

  // Returns the score at a place of an image.
  double Score(int64_t image, int64_t row, int64_t column) const {
    return Value(scores_, image, row, column, 1);
  }
  BoxOffsets Shifts(int64_t image, int64_t row, int64_t column) const {
    BoxOffsets shifts{};
    for (size_t k = 0; k < 4; ++k) {
      shifts[k] = Value(shifts_, image, row, column, static_cast<int64_t>(k));
    }
    return shifts;
  }
  int64_t KeyPoints() const { return points_.name.empty() ? 0 : 5; }
  // Returns the key points of an image, in sizes of its box; empty without such an output.
  std::vector<KeyPoint> PointsOf(int64_t image) const {
    std::vector<KeyPoint> points;
    for (int64_t k = 0; k < KeyPoints(); ++k) {
      points.push_back({Value(points_, image, 0, 0, k), Value(points_, image, 0, 0, 5 + k)});
    }
    return points;
  }

 private:
  const BlobInfo& Input() const { return model_->inputs()[0]; }

  [[noreturn]] void FailHere(const std::string& what) const {
    FailStage(cascade_.path(), static_cast<int>(index_), what);
  }

  void FindOutputs() {
    const bool is_last = index_ + 1 == cascade_.models().size();
    for (const BlobInfo& output : model_->outputs()) {
      const int64_t channels = output.shape.size() < 2 ? 0
                               : last_                 ? output.shape.back()
                                                       : output.shape[1];
      for (Output* one : {&scores_, &shifts_, &points_}) {
        if (one->channels == channels && (one != &points_ || is_last)) one->name = output.name;
      }
    }
    if (scores_.name.empty() || shifts_.name.empty()) {
      FailHere("the net needs an output of 2 channels, the scores, and one of 4, the boxes");
    }
  }

  // An input of the net, not set.
  Tensor MakeInput(int64_t n, int height, int width) const {
    const int64_t a = transposed_ ? width : height, b = transposed_ ? height : width;
    return Tensor(last_ ? Shape{n, a, b, 3} : Shape{n, 3, a, b}, DType::kF32);
  }

  void ComputeZeros(int height, int width) {
    Tensor input = MakeInput(1, height, width);
    std::ranges::fill(input.view().span<float>(), 0.0F);
    try {
      Compute(input, height, width);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument || !error.problems()[0].where.blob.empty()) {
        throw;
      }
      FailHere(StrCat("the net does not compute ", height, " x ", width,
                      " pixels: ", error.problems()[0].message));
    }
  }

  void Compute(const Tensor& input, int height, int width) {
    const NamedTensor named{Input().name, input.view()};
    ModelRunner& runner = transposed_ ? RunnerFor(width, height) : RunnerFor(height, width);
    runner.Run({&named, 1});
    std::tie(rows_, columns_) = PlacesOf(runner.Output(scores_.name).shape());
    for (Output* one : {&scores_, &shifts_, &points_}) {
      if (one->name.empty()) continue;
      const ConstTensorView view = runner.Output(one->name);
      CheckOutput(*one, view.shape(), input.view().shape()[0]);
      one->values = view.span<float>();
    }
  }

  // Rows and columns.
  std::pair<int64_t, int64_t> PlacesOf(const Shape& shape) const {
    if (shape.axes() < 4) return {1, 1};
    const size_t first = last_ ? 1 : 2;
    return transposed_ ? std::pair(shape[first + 1], shape[first])
                       : std::pair(shape[first], shape[first + 1]);
  }

  // Value() relies on it.
  void CheckOutput(const Output& output, const Shape& shape, int64_t n) const {
    const bool one_place = index_ == 0 || (rows_ == 1 && columns_ == 1);
    const bool fits = shape.axes() >= 2 && shape[0] == n &&
                      shape[last_ ? shape.axes() - 1 : 1] == output.channels &&
                      PlacesOf(shape) == std::pair(rows_, columns_) &&
                      shape.count() == n * output.channels * rows_ * columns_;
    if (fits && one_place) return;
    const std::string places =
        index_ == 0 ? StrCat(rows_, " x ", columns_, " places, as the scores") : "1 x 1 places";
    Fail(ErrorCode::kInvalidArgument,
         StrCat("stage ", index_ + 1, ": output '", output.name, "' has the shape ",
                ToString(shape), ", but needs ", n, " x ", output.channels, " channels x ", places),
         {.file = cascade_.path(), .blob = output.name});
  }

  void Forget() {
    runners_.clear();
    kept_pixels_ = 0;
  }

  ModelRunner& RunnerFor(int64_t a, int64_t b) {
    constexpr size_t kMostSizes = 64;  // of the first net; several pictures of one size need few
    const auto known = runners_.find({a, b});
    if (known != runners_.end()) return *known->second;
    if (runners_.size() >= kMostSizes || kept_pixels_ + a * b > kMostKept) Forget();
    auto made = std::make_unique<ModelRunner>(index_ == 0 ? cascade_.FirstFor(a, b) : model_);
    kept_pixels_ += a * b;
    return *(runners_[{a, b}] = std::move(made));
  }

  // Writes planes of rows x columns to an input of 3 x a x b or a x b x 3.
  void Arrange(const std::vector<float>& planes, int64_t rows, int64_t columns,
               std::span<float> to) const {
    size_t from = 0;
    const int64_t a = transposed_ ? columns : rows, b = transposed_ ? rows : columns;
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t y = 0; y < rows; ++y) {
        for (int64_t x = 0; x < columns; ++x) {
          const int64_t place = transposed_ ? x * b + y : y * b + x;
          to[static_cast<size_t>(last_ ? place * 3 + c : c * a * b + place)] = planes[from++];
        }
      }
    }
  }

  double Value(const Output& output, int64_t image, int64_t row, int64_t column,
               int64_t channel) const {
    const int64_t place = transposed_ ? column * rows_ + row : row * columns_ + column;
    const int64_t places = rows_ * columns_;
    const int64_t at = last_ ? (image * places + place) * output.channels + channel
                             : (image * output.channels + channel) * places + place;
    return double{output.values[static_cast<size_t>(at)]};
  }

  const Cascade& cascade_;
  size_t index_;
  std::shared_ptr<const Model> model_;
  // An activation of the first net has several times the bytes of its picture.
  static constexpr int64_t kMostKept = int64_t{1} << 21;
  std::map<std::pair<int64_t, int64_t>, std::unique_ptr<ModelRunner>> runners_;  // by size
  int64_t kept_pixels_ = 0;                                                      // of these sizes
  bool last_;  // channels are the last axis
  bool transposed_;
  Preprocessing pixels_;
  Output scores_{2}, shifts_{4}, points_{10};
  int64_t rows_ = 1;
  int64_t columns_ = 1;
};

CascadeRunner::CascadeRunner(const Cascade& cascade) : cascade_(cascade) {
  for (size_t s = 0; s < cascade.models().size(); ++s) {
    stages_.push_back(std::make_unique<Stage>(cascade, s));
  }
}

CascadeRunner::~CascadeRunner() = default;

int64_t CascadeRunner::KeyPoints() const { return stages_.back()->KeyPoints(); }

void CascadeRunner::Check() {
  for (const std::unique_ptr<Stage>& stage : stages_) stage->Check();
}

// The boxes of the first net in one size of the picture.
std::vector<Candidate> CascadeRunner::BoxesOfSize(const Image& picture, double scale) {
  const CascadeFile& file = cascade_.file();
  Stage& stage = *stages_[0];
  const auto [height, width] = Scaled(picture, scale);
  stage.Run(picture, {}, height, width);
  std::vector<double> scores;
  for (int64_t column = 0; column < stage.columns(); ++column) {
    for (int64_t row = 0; row < stage.rows(); ++row) scores.push_back(stage.Score(0, row, column));
  }
  std::vector<Candidate> found;
  for (const int64_t i : BestFirst(scores, file.stage(0).threshold(), kMostCandidates)) {
    const int64_t column = i / stage.rows(), row = i % stage.rows();
    const double x = static_cast<double>(file.stride() * column);
    const double y = static_cast<double>(file.stride() * row), window = file.window();
    const Box box{(x + 1) / scale, (y + 1) / scale, (x + window) / scale, (y + window) / scale};
    found.push_back({Truncated(box), scores[static_cast<size_t>(i)], stage.Shifts(0, row, column)});
  }
  std::erase_if(found, std::not_fn(IsUsable));
  KeepOnly(Keep(found, file.size_nms(), false), &found);
  return found;
}

// The boxes of the first net, in all sizes of the picture.
std::vector<Candidate> CascadeRunner::FirstBoxes(const Image& picture,
                                                 const std::function<bool()>& cancelled) {
  struct Cleanup {  // after an error, too
    Stage& stage;
    ~Cleanup() { stage.ForgetLarge(); }
  };
  const Cleanup cleanup{*stages_[0]};
  const CascadeFile& file = cascade_.file();
  const CascadeStage& stage = file.stage(0);
  const double window = file.window();
  double scale = window / file.min_size();
  std::vector<Candidate> all;
  for (; std::min(picture.height, picture.width) * scale >= window; scale *= file.factor()) {
    StopIf(cancelled);
    std::ranges::move(BoxesOfSize(picture, scale), std::back_inserter(all));
  }
  KeepOnly(Keep(all, stage.nms(), stage.nms_by() == CascadeStage::SMALLER), &all);
  for (Candidate& c : all) {
    ShiftEdges(0, &c);
    MakeSquare(&c.box);
  }
  return all;
}

// Returns those of the boxes that stage `s` accepts, with its scores, shifts and key points.
std::vector<Candidate> CascadeRunner::Accepted(size_t s, const Image& picture,
                                               const std::vector<Candidate>& boxes,
                                               const std::function<bool()>& cancelled) {
  constexpr size_t kBatch = 16;  // plans for this and for one image are enough
  Stage& stage = *stages_[s];
  const auto [height, width] = stage.Size();
  std::vector<Box> places;
  for (const Candidate& c : boxes) {
    const Box box = Truncated(c.box);
    if (CanCut(picture, box)) places.push_back(box);
  }
  std::vector<Candidate> accepted;
  for (size_t begin = 0, count = 0; begin < places.size(); begin += count) {
    StopIf(cancelled);
    const bool whole = cascade_.models()[s]->Batches() && places.size() - begin >= kBatch;
    count = whole ? kBatch : 1;
    stage.Run(picture, std::span(places).subspan(begin, count), height, width);
    for (size_t i = 0; i < count; ++i) {
      const auto image = static_cast<int64_t>(i);
      const double score = stage.Score(image, 0, 0);
      if (!(score > cascade_.file().stage(static_cast<int>(s)).threshold())) continue;
      Candidate c{places[begin + i], score, stage.Shifts(image, 0, 0)};
      for (const KeyPoint& point : stage.PointsOf(image)) {
        c.keypoints.push_back({c.box.xmin + point.x * (c.box.width() + 1) - 1,
                               c.box.ymin + point.y * (c.box.height() + 1) - 1});
      }
      if (IsUsable(c)) accepted.push_back(std::move(c));
    }
  }
  return accepted;
}

std::vector<FoundBox> CascadeRunner::Detect(const Image& picture,
                                            const std::function<bool()>& cancelled) {
  std::vector<Candidate> found = FirstBoxes(picture, cancelled);
  for (size_t s = 1; s < stages_.size(); ++s) {
    found = Accepted(s, picture, found, cancelled);
    const CascadeStage& stage = cascade_.file().stage(static_cast<int>(s));
    const bool is_last = s + 1 == stages_.size();
    if (is_last) std::ranges::for_each(found, [](Candidate& c) { ShiftEdges(1, &c); });
    KeepOnly(Keep(found, stage.nms(), stage.nms_by() == CascadeStage::SMALLER), &found);
    for (size_t i = 0; !is_last && i < found.size(); ++i) {
      ShiftEdges(1, &found[i]);
      MakeSquare(&found[i].box);
    }
  }
  std::vector<FoundBox> boxes;
  for (Candidate& c : found) {
    boxes.push_back({kFound,
                     c.score,
                     {InPicture(c.box.xmin, picture.width), InPicture(c.box.ymin, picture.height),
                      InPicture(c.box.xmax, picture.width), InPicture(c.box.ymax, picture.height)},
                     std::move(c.keypoints)});
  }
  return boxes;
}

}  // namespace crema
