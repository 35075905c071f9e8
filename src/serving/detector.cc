#include "serving/detector.h"

#include <algorithm>

#include "core/strings.h"
#include "runtime/host_view.h"

namespace crema {
namespace {

constexpr const char* kNoDecoder =
    "no layer of type DetectionOutput gives an output of this net; where it ends in raw boxes and "
    "scores, give the layers that decode them with --tail (see models/ultra_light_face)";

LayerParameter* FindDecoder(NetParameter* net, const std::string& file) {
  LayerParameter* decoder = nullptr;
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() != "DetectionOutput") continue;
    if (decoder != nullptr) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("a net for detection has one DetectionOutput; this one has \"", decoder->name(),
                  "\" and \"", layer.name(), "\""),
           {.file = file});
    }
    decoder = &layer;
  }
  if (decoder == nullptr || decoder->top_size() != 1) {
    Fail(ErrorCode::kInvalidArgument, kNoDecoder, {.file = file});
  }
  return decoder;
}

void Configure(const DetectorOptions& options, DetectionOutputParameter* param) {
  param->set_confidence_threshold(static_cast<float>(options.confidence));
  if (options.nms) param->mutable_nms_param()->set_nms_threshold(static_cast<float>(*options.nms));
  param->clear_save_output_param();
  param->clear_visualize();
}

double Within(double value, double end) { return std::clamp(value, 0.0, 1.0) * end; }

}  // namespace

NetFile WithTail(NetFile net, const NetFile& tail) {
  for (const LayerParameter& layer : tail.net.layer()) *net.net.add_layer() = layer;
  net.warnings.insert(net.warnings.end(), tail.warnings.begin(), tail.warnings.end());
  return net;
}

Detector::Detector(const NetFile& net, const WeightsFiles& files, const DetectorOptions& options,
                   const Registry& registry, LogSink& log)
    : device_(options.device) {
  const std::string file = net.source.Locate("").file;
  NetParameter one = ForOneImage(net.net);
  LayerParameter* decoder = FindDecoder(&one, file);
  Configure(options, decoder->mutable_detection_output_param());
  classes_ = static_cast<int>(decoder->detection_output_param().num_classes());
  output_ = decoder->top(0);
  NetState state;
  state.set_phase(TEST);
  state.MergeFrom(one.state());
  RefuseTrainingNet(net, state);
  std::vector<Problem> warnings = net.warnings;
  PlanOptions plan_options = options.plan;
  plan_options.backward = false;
  plan_options.device = device_.device;
  plan_ = MakePlan(one, net.source, state, registry, plan_options, &warnings);
  for (const Problem& warning : warnings) log.Write(Severity::kWarning, ToString(warning));
  const bool is_output = std::ranges::any_of(
      plan_->outputs, [&](int v) { return plan_->values[static_cast<size_t>(v)].name == output_; });
  if (!is_output) Fail(ErrorCode::kInvalidArgument, kNoDecoder, {.file = file});
  input_ = FindImageInput(*plan_, file, "detection");
  input_shape_ = plan_->values[static_cast<size_t>(plan_->FindFirstValue(input_))].spec.shape;
  if (input_shape_.axes() != 4 || input_shape_[0] != 1 || input_shape_.count() == 0 ||
      (input_shape_[1] != 1 && input_shape_[1] != 3)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("detection needs an input of N x 1 or 3 x H x W; '", input_, "' is ",
                ToString(input_shape_)),
         {.file = file});
  }
  auto weights = Weights::MakeToLoad(*plan_, 1);
  LoadFiles(files, *plan_, weights.get(), &log);
  weights_ = std::move(weights);
}

Detector::Worker::Worker(const Detector& detector, int threads)
    : detector_(detector),
      session_(detector.plan_, detector.weights_, detector.device_.Context(threads, 1)) {
  session_.FixWeights();
}

std::vector<FoundBox> Detector::Worker::Detect(const std::string& bytes, const std::string& name,
                                               const Preprocessing& preprocessing) {
  Tensor image(detector_.input_shape_, DType::kF32);
  const PictureSize size = FillImageInput(bytes, name, preprocessing, image.view());
  session_.Write(session_.MutableData(detector_.input_), image.view().raw());
  session_.Forward();
  const HostView output(session_, session_.Data(detector_.output_));
  const std::span<const float> rows = output->span<float>();
  std::vector<FoundBox> found;
  for (size_t r = 0; r + 7 <= rows.size(); r += 7) {
    const float* row = rows.data() + r;
    if (row[1] < 0) continue;
    const PixelBox box{Within(double{row[3]}, size.width), Within(double{row[4]}, size.height),
                       Within(double{row[5]}, size.width), Within(double{row[6]}, size.height)};
    found.push_back({static_cast<int>(row[1]), double{row[2]}, box});
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, &FoundBox::score);
  return found;
}

}  // namespace crema
