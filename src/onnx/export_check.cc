#include "onnx/export_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "inference/model_parts.h"

namespace crema {
namespace {

constexpr double kLooseShare = 0.1;  // of values and rows that depend on thresholds

// Applies the preprocessing that the graph computes to pixels with red first.
Tensor Preprocessed(const ConstTensorView& pixels, const Preprocessing& p) {
  Tensor made(pixels.shape(), DType::kF32);
  const Shape& shape = pixels.shape();
  const int64_t channels = shape[1], plane = shape.count(2), image = shape.count(1);
  for (int64_t i = 0; i < pixels.count(); ++i) {
    const int64_t c = i / plane % channels;
    const int64_t from = p.rgb ? i : i + (channels - 1 - 2 * c) * plane;
    made.view().data<float>()[i] =
        PreprocessedValue(p, pixels.data<float>()[from], static_cast<size_t>(c),
                          static_cast<size_t>(channels), static_cast<size_t>(i % image));
  }
  return made;
}

// The values of all blobs of the model, from a plan that keeps them.
class Source {
 public:
  Source(const Model& model, std::span<const NamedTensor> inputs) {
    const Model::Parts& parts = model.parts();
    NetParameter net = parts.net.net;
    std::vector<Shape> shapes;
    for (const BlobInfo& blob : model.inputs())
      shapes.push_back(InputOf(inputs, blob.name).shape());
    SetInputShapes(parts.input_blobs, shapes, &net);
    PlanOptions options = parts.options.plan;
    options.optimize = false;
    options.device = {};
    std::vector<Problem> ignored;
    plan_ = MakePlan(net, parts.net.source, parts.state, *parts.registry, options, &ignored);
    const std::shared_ptr<const Weights> weights = Weights::ShareWith(*plan_, *model.weights(), 1);
    session_ = std::make_unique<Session>(plan_, weights, ExecContext(parts.options.threads));
    for (const BlobInfo& blob : model.inputs()) {
      session_->Write(session_->MutableData(blob.name), InputOf(inputs, blob.name).raw());
    }
    session_->Forward();
  }

  ConstTensorView Value(const std::string& blob) const { return session_->Data(blob); }

  std::string LayerOf(const std::string& blob) const {
    const auto value = static_cast<size_t>(plan_->FindValue(blob));
    return plan_->layers[static_cast<size_t>(plan_->values[value].producer)].name();
  }

  // Positions, and what depends on a choice among boxes.
  bool IsLoose(const std::string& blob) const {
    const auto value = static_cast<size_t>(plan_->FindValue(blob));
    const PlannedLayer& layer = plan_->layers[static_cast<size_t>(plan_->values[value].producer)];
    if (layer.type->name == "ArgMax" || layer.info.dynamic_outputs) return true;
    return std::ranges::any_of(layer.inputs, [&](int v) {
      const int producer = plan_->values[static_cast<size_t>(v)].producer;
      return producer >= 0 && plan_->layers[static_cast<size_t>(producer)].info.dynamic_outputs;
    });
  }

 private:
  static const ConstTensorView& InputOf(std::span<const NamedTensor> inputs,
                                        const std::string& name) {
    const auto found = std::ranges::find(inputs, name, &NamedTensor::name);
    if (found == inputs.end()) {
      Fail(ErrorCode::kInvalidArgument, StrCat("there is no input '", name, "' to check with"));
    }
    return found->value;
  }

  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Session> session_;
};

// Returns why two values do not agree; empty: they do.
std::string Disagreement(const ConstTensorView& want, const ConstTensorView& got, double tolerance,
                         bool loose) {
  if (want.shape() != got.shape()) {
    const double rows = std::abs(static_cast<double>(want.count() - got.count()));
    const auto all = static_cast<double>(std::max(want.count(), got.count()));
    if (loose && want.shape().axes() == got.shape().axes() && rows <= kLooseShare * all) return "";
    return StrCat("has the shape ", ToString(got.shape()), " instead of ", ToString(want.shape()));
  }
  if (want.dtype() != DType::kF32 || got.dtype() != DType::kF32) return "";
  const std::span<const float> a = want.span<float>(), b = got.span<float>();
  double most = 0, worst = 0;
  for (const float value : a) {
    if (std::isfinite(value)) most = std::max(most, std::abs(double{value}));
  }
  most = std::max(most, 1e-5);
  size_t off = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::abs(double{a[i]} - double{b[i]}) / most;
    if (difference <= tolerance) continue;
    ++off;
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  if (off == 0) return "";
  if (loose && static_cast<double>(off) <= kLooseShare * static_cast<double>(a.size())) return "";
  return StrCat("differs in ", off, " of ", a.size(), " values, by up to ", worst,
                " of the largest, where ", tolerance, " is allowed");
}

}  // namespace

OnnxDifference CompareWithOnnx(const Model& model, const OnnxExport& exported,
                               const std::string& path, std::span<const NamedTensor> inputs,
                               const OnnxRunner& runner, double tolerance) {
  std::vector<NamedTensor> own(inputs.begin(), inputs.end());
  Tensor preprocessed;
  if (exported.preprocessing) {
    preprocessed = Preprocessed(inputs[0].value, model.card().preprocessing);
    own[0].value = std::as_const(preprocessed).view();
  }
  const Source source(model, own);
  std::vector<ExportedBlob> blobs = exported.blobs;
  blobs.insert(blobs.end(), exported.outputs.begin(), exported.outputs.end());
  std::vector<std::string> wanted;
  for (const ExportedBlob& blob : blobs) wanted.push_back(blob.value);
  const std::vector<NamedOutput> values = runner(path, inputs, wanted);
  OnnxDifference result;
  for (const ExportedBlob& blob : blobs) {
    const auto found = std::ranges::find(values, blob.value, &NamedOutput::name);
    if (found == values.end()) continue;
    ++result.compared;
    const std::string reason = Disagreement(source.Value(blob.blob), found->value.view(), tolerance,
                                            source.IsLoose(blob.blob));
    if (reason.empty()) continue;
    result.blob = blob.blob;
    result.reason =
        StrCat("blob '", blob.blob, "' of layer '", source.LayerOf(blob.blob), "' ", reason);
    return result;
  }
  for (const ExportedBlob& output : exported.outputs) {
    if (std::ranges::find(values, output.value, &NamedOutput::name) != values.end()) continue;
    result.blob = output.blob;
    result.reason = StrCat("output '", output.blob, "' is missing");
    return result;
  }
  return result;
}

}  // namespace crema
