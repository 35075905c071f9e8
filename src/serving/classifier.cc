#include "serving/classifier.h"

#include <algorithm>
#include <utility>

#include "core/strings.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "runtime/host_view.h"

namespace crema {
namespace {

std::string FindOutput(const Plan& plan, const std::string& wanted, const std::string& file) {
  std::vector<std::string> outputs;
  for (int v : plan.outputs) outputs.push_back(plan.values[static_cast<size_t>(v)].name);
  if (!wanted.empty()) {
    if (std::ranges::find(outputs, wanted) != outputs.end()) return wanted;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the net has no output '", wanted, "'", DidYouMean(wanted, outputs),
                "; its outputs: ", Join(outputs, " ")),
         {.file = file});
  }
  if (outputs.size() != 1) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the net has several outputs (", Join(outputs, " "), "); choose one with --output"),
         {.file = file});
  }
  return outputs[0];
}

}  // namespace

Classifier::Classifier(const NetFile& net, const WeightsFiles& files, const std::string& output,
                       const Registry& registry, LogSink& log, const PlanOptions& plan,
                       ComputeDevice device)
    : device_(std::move(device)) {
  NetState state;
  state.set_phase(TEST);
  state.MergeFrom(net.net.state());
  RefuseTrainingNet(net, state);
  std::vector<Problem> warnings = net.warnings;
  PlanOptions options = plan;
  options.backward = false;
  options.device = device_.device;
  plan_ = MakePlan(ForOneImage(net.net), net.source, state, registry, options, &warnings);
  for (const Problem& warning : warnings) log.Write(Severity::kWarning, ToString(warning));
  const std::string file = net.source.Locate("").file;
  input_ = FindImageInput(*plan_, file, "classification");
  output_ = FindOutput(*plan_, output, file);
  input_shape_ = plan_->values[static_cast<size_t>(plan_->FindFirstValue(input_))].spec.shape;
  const Shape& scores = plan_->values[static_cast<size_t>(plan_->FindValue(output_))].spec.shape;
  const bool fits = input_shape_.axes() == 4 && input_shape_.count() > 0 && scores.count() > 0 &&
                    (input_shape_[1] == 1 || input_shape_[1] == 3) && scores.axes() > 0 &&
                    scores[0] == input_shape_[0];
  if (!fits) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("classification needs an input of N x 1 or 3 x H x W and scores of N x classes; '",
                input_, "' is ", ToString(input_shape_), ", '", output_, "' is ", ToString(scores)),
         {.file = file});
  }
  classes_ = scores.count(1);
  auto weights = Weights::MakeToLoad(*plan_, 1);
  LoadFiles(files, *plan_, weights.get(), &log);
  weights_ = std::move(weights);
}

std::vector<float> Classifier::ReadMean(const std::string& path) const {
  const BlobProto blob = ReadBlobProtoFile(path);
  const Shape shape = ShapeOf(blob);
  const int64_t plane = shape.axes() >= 2 ? shape[shape.axes() - 1] * shape[shape.axes() - 2] : 1;
  Tensor tensor(shape, DType::kF32);
  CopyTo(blob, tensor.view());
  const std::span<const float> values = std::as_const(tensor).view().span<float>();
  if (plane == 0 || shape.count() != plane * channels()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the mean is ", ToString(shape), ", but the net's input has ", channels(),
                " channels"),
         {.file = path});
  }
  if (shape.count() == input_shape_.count(1)) return {values.begin(), values.end()};
  std::vector<float> means;
  for (int64_t c = 0; c < channels(); ++c) {
    double sum = 0;
    for (int64_t i = 0; i < plane; ++i) sum += values[static_cast<size_t>(c * plane + i)];
    means.push_back(static_cast<float>(sum / static_cast<double>(plane)));
  }
  return means;
}

Classifier::Worker::Worker(const Classifier& classifier, int threads)
    : classifier_(classifier),
      session_(classifier.plan_, classifier.weights_, classifier.device_.Context(threads, 1)) {
  session_.FixWeights();
}

std::vector<Prediction> Classifier::Worker::Classify(const std::string& bytes,
                                                     const std::string& name,
                                                     const Preprocessing& preprocessing) {
  const Classifier& c = classifier_;
  Tensor image(c.input_shape_, DType::kF32);
  FillImageInput(bytes, name, preprocessing, image.view());
  session_.Write(session_.MutableData(c.input_), image.view().raw());
  session_.Forward();
  const HostView output(session_, session_.Data(c.output_));
  const std::span<const float> scores = output->span<float>();
  std::vector<Prediction> predictions;
  for (int k = 0; k < c.classes(); ++k) {
    predictions.push_back({k, scores[static_cast<size_t>(k)]});
  }
  std::ranges::stable_sort(predictions, std::ranges::greater{}, &Prediction::score);
  return predictions;
}

}  // namespace crema
