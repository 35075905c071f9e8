#include "inference/recording.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "inference/crema_file.h"
#include "inference/model_parts.h"
#include "inference/region_head.h"

namespace crema {
namespace {

Shape RecordedShape(const BlobInfo& input, const Shape& planned) {
  return !input.shape.empty() && input.shape[0] == -1 ? planned.With(0, 1) : planned;
}

// Draws pixel values for image models, as preprocessing would produce them.
void DrawValues(uint64_t seed, const ModelCard& card, const TensorView& to) {
  const RandomStream stream(seed, HashName("recording"));
  Preprocessing p = card.preprocessing;  // of the first channel
  p.invert = false;
  p.mean.resize(p.mean.empty() ? 0 : 1);
  for (size_t i = 0; i < static_cast<size_t>(to.count()); ++i) {
    const auto pixel = static_cast<float>(stream.Below(i, 256));
    if (to.dtype() == DType::kU8) {
      to.data<uint8_t>()[i] = static_cast<uint8_t>(pixel);
    } else {
      to.data<float>()[i] =
          card.task.empty() ? pixel / 127.5F - 1 : PreprocessedValue(p, pixel, 0, 1, 0);
    }
  }
}

std::vector<NamedTensor> Named(const Model& model, const std::vector<Tensor>& values) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < values.size(); ++i) {
    named.push_back({model.inputs()[i].name, values[i].view()});
  }
  return named;
}

enum class OutputKind {
  kNumbers,
  kPositions,   // of the best: a small difference of numbers may choose another one
  kChosenRows,  // those of the best boxes: it may also put them in another order
};

OutputKind OutputKindOf(const Plan& plan, const BlobInfo& output) {
  const auto value = static_cast<size_t>(plan.FindValue(output.name));
  std::vector<bool> chosen(plan.values.size());
  for (const PlannedLayer& layer : plan.layers) {
    const bool chooses =
        layer.info.dynamic_outputs ||
        std::ranges::any_of(layer.inputs, [&](int v) { return chosen[static_cast<size_t>(v)]; });
    for (const int v : layer.outputs) chosen[static_cast<size_t>(v)] = chooses;
  }
  if (chosen[value]) return OutputKind::kChosenRows;
  const PlannedLayer& producer = plan.layers[static_cast<size_t>(plan.values[value].producer)];
  return producer.type->name == "ArgMax" ? OutputKind::kPositions : OutputKind::kNumbers;
}

[[noreturn]] void FailOther(const std::string& path, const std::string& output,
                            const std::string& how) {
  Fail(ErrorCode::kDataLoss,
       StrCat("does not compute what it was recorded to: output '", output, "' ", how),
       {.file = path});
}

std::vector<float> FloatsOf(const ConstTensorView& view) {
  if (view.dtype() == DType::kF32) return {view.span<float>().begin(), view.span<float>().end()};
  return {view.span<uint8_t>().begin(), view.span<uint8_t>().end()};
}

// NaNs are the least.
std::pair<bool, float> Ordered(float value) {
  return std::isnan(value) ? std::pair(false, 0.0F) : std::pair(true, value);
}

bool ImplementationsMayDiffer(const Shape& a, const Shape& b) {
  if (a.axes() != b.axes()) return false;
  constexpr double kPart = 0.1;
  const auto most = static_cast<double>(std::max(a.count(), b.count()));
  return std::abs(static_cast<double>(a.count() - b.count())) <= std::max(kPart * most, 7.0);
}

void CheckOutput(const std::string& name, OutputKind kind, double tolerance,
                 const ConstTensorView& expected, const ConstTensorView& computed,
                 const std::string& path) {
  if (computed.shape() != expected.shape()) {
    if (kind != OutputKind::kNumbers &&
        ImplementationsMayDiffer(computed.shape(), expected.shape()))
      return;
    FailOther(
        path, name,
        StrCat("is ", ToString(computed.shape()), ", recorded is ", ToString(expected.shape())));
  }
  std::vector<float> a = FloatsOf(expected);
  std::vector<float> b = FloatsOf(computed);
  if (kind == OutputKind::kChosenRows) {
    std::ranges::sort(a, std::ranges::less{}, Ordered);
    std::ranges::sort(b, std::ranges::less{}, Ordered);
  }
  double largest = 0;
  for (const float value : a) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(double{value}));
  }
  double worst = 0;
  size_t off = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) == 0) continue;
    const double difference = std::abs(double{a[i]} - double{b[i]});
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (both_nan || difference <= tolerance * largest) continue;
    worst = std::isnan(difference) ? difference : std::max(worst, difference);
    ++off;
  }
  if (off == 0 || (kind != OutputKind::kNumbers && off * 10 <= a.size())) return;
  FailOther(path, name,
            StrCat("differs in ", off, " of ", a.size(), " values, by up to ", worst, ", where ",
                   tolerance * largest, " is allowed"));
}

}  // namespace

double RecordedTolerance(const NetParameter& net) {
  const auto of = [](const auto& message) {
    if (!message.has_precision() || message.precision() == FP32) return 1e-3;
    return message.precision() == BF16 ? 0.05 : 0.15;
  };
  double tolerance = of(net);
  for (const LayerParameter& layer : net.layer()) tolerance = std::max(tolerance, of(layer));
  return tolerance;
}

RecordedRun RecordRun(const std::shared_ptr<const Model>& model) {
  RecordedRun run;
  const Model::Parts& parts = model->parts();
  for (size_t i = 0; i < model->inputs().size(); ++i) {
    const BlobInfo& input = model->inputs()[i];
    const Plan& plan = *parts.plan;
    const Shape& planned =
        plan.values[static_cast<size_t>(plan.FindFirstValue(input.name))].spec.shape;
    run.inputs.emplace_back(RecordedShape(input, planned), input.dtype);
    DrawValues(i + 1, model->card(), run.inputs.back().view());
    SetSizesIfThose(*model, input.name, run.inputs.back().view());
  }
  ModelRunner runner(model);
  try {
    runner.Run(Named(*model, run.inputs));
  } catch (const Error&) {
    // Retries with zeros: some nets accept only whole numbers, such as words. An error with zeros
    // is an error of the net.
    for (Tensor& input : run.inputs) std::memset(input.view().raw(), 0, input.view().bytes());
    runner.Run(Named(*model, run.inputs));
  }
  for (const BlobInfo& output : model->outputs()) {
    const ConstTensorView value = runner.Output(output.name);
    run.outputs.emplace_back(value.shape(), value.dtype());
    std::memcpy(run.outputs.back().view().raw(), value.raw(), value.bytes());
  }
  return run;
}

void CheckRecording(const std::shared_ptr<const Model>& model, const Recording& recording,
                    std::string_view bytes, const std::string& path) {
  const bool fits = static_cast<size_t>(recording.input_size()) == model->inputs().size() &&
                    static_cast<size_t>(recording.output_size()) == model->outputs().size();
  if (!fits) {
    Fail(ErrorCode::kDataLoss, "has no recording of all inputs and outputs of its net",
         {.file = path});
  }
  std::vector<NamedTensor> inputs;
  for (const StoredTensor& input : recording.input()) {
    inputs.push_back({input.name(), TensorIn(bytes, input)});
  }
  ModelRunner runner(model);
  try {
    runner.Run(inputs);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    Fail(ErrorCode::kDataLoss, StrCat("its net does not take what was recorded: ", error.what()),
         {.file = path});
  }
  const Plan& plan = *model->parts().plan;
  for (size_t i = 0; i < model->outputs().size(); ++i) {
    const BlobInfo& output = model->outputs()[i];
    const StoredTensor& recorded = recording.output(static_cast<int>(i));
    const auto type = output.dtype == DType::kU8 ? StoredTensor::U8 : StoredTensor::F32;
    if (recorded.name() != output.name || recorded.type() != type) {
      Fail(ErrorCode::kDataLoss, StrCat("has no recording of output '", output.name, "'"),
           {.file = path});
    }
    CheckOutput(output.name, OutputKindOf(plan, output), recording.tolerance(),
                TensorIn(bytes, recorded), runner.Output(output.name), path);
  }
  runner.PassToNext();
}

}  // namespace crema
