#include "quantization/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/strings.h"
#include "crema.pb.h"
#include "quantization/layer_losses.h"
#include "quantization/net_ranges.h"

namespace crema {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::shared_ptr<const Plan> PlanOf(const NetParameter& net, const SourceMap& source,
                                   const NetState& state, const Registry& registry, int threads,
                                   bool optimize) {
  PlanOptions options;
  options.threads = threads;
  options.backward = false;
  options.optimize = optimize;
  options.passes.move_strides = false;  // keeps the blobs of both plans comparable
  std::vector<Problem> warnings;        // already reported when the caller planned the net
  return MakePlan(net, source, state, registry, options, &warnings);
}

NetParameter InSinglePrecision(NetParameter net) {
  net.clear_precision();
  for (LayerParameter& layer : *net.mutable_layer()) {
    layer.clear_precision();
    layer.clear_int8();
  }
  return net;
}

// Precisions of the layers that do not compute in int8, by name.
std::map<std::string, Precision> PrecisionsOf(const NetParameter& net) {
  std::map<std::string, Precision> precisions;
  for (const LayerParameter& layer : net.layer()) {
    if (layer.has_precision() && layer.precision() != INT8 && !layer.name().empty()) {
      precisions[layer.name()] = layer.precision();
    }
  }
  return precisions;
}

class Quantizer {
 public:
  Quantizer(const NetParameter& net, const SourceMap& source, const NetState& state,
            const Registry& registry, std::shared_ptr<const Weights> weights,
            const CalibrationInputs& inputs, const QuantizeOptions& options)
      : state_(state),
        registry_(registry),
        weights_(std::move(weights)),
        inputs_(inputs),
        options_(options),
        written_(PrecisionsOf(net)),
        plan_(PlanOf(InSinglePrecision(net), source, state, registry, options.threads, false)),
        session_(plan_, weights_, ExecContext(options.threads, 1)) {
    session_.FixWeights();
  }

  QuantizeResult Run() {
    CheckKept();
    stays_float_.insert(options_.keep_float.begin(), options_.keep_float.end());
    FindRanges();
    MeasureOwn();
    result_.net = plan_->written;
    result_.net.set_precision(INT8);
    WriteRanges(*plan_, ranges_, &result_.net);
    for (LayerParameter& layer : *result_.net.mutable_layer()) {
      if (stays_float_.contains(layer.name())) layer.set_precision(FP32);
      const auto written = written_.find(layer.name());
      if (written != written_.end()) layer.set_precision(written->second);
    }
    if (result_.report.Quantized() == 0) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("no layer can compute on bytes:\n", result_.report.Text()));
    }
    MeasureAll();
    return std::move(result_);
  }

 private:
  void CheckKept() const {
    std::vector<std::string> names;
    for (const PlannedLayer& layer : plan_->layers) names.push_back(layer.name());
    for (const std::string& name : options_.keep_float) {
      if (std::ranges::find(names, name) != names.end()) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the net has no layer '", name, "' to keep in single precision",
                  DidYouMean(name, names)));
    }
  }

  void FindRanges() {
    NetHistograms histograms(*plan_);
    session_.set_observer(&histograms);
    int64_t batches = 0;
    for (; inputs_(batches, session_); ++batches) session_.Forward();
    session_.set_observer(nullptr);
    if (batches == 0) {
      Fail(ErrorCode::kInvalidArgument,
           "the calibration list is empty: ranges of blobs come from data as the net will see");
    }
    histograms.CheckInputs();
    ranges_ = RangesOf(*plan_, histograms, options_);
    result_.report.batches = batches;
  }

  int64_t ErrorBatches() const { return std::min(options_.error_batches, result_.report.batches); }
  // Spreads the batches over the list, whose start may be uniform.
  int64_t ErrorBatch(int64_t i) const { return i * result_.report.batches / ErrorBatches(); }

  void MeasureOwn() {
    OwnLosses losses(*plan_, ranges_);
    session_.set_observer(&losses);
    for (int64_t i = 0; i < ErrorBatches() && inputs_(ErrorBatch(i), session_); ++i) {
      session_.Forward();
    }
    session_.set_observer(nullptr);
    for (size_t n = 0; n < plan_->layers.size(); ++n) {
      const PlannedLayer& layer = plan_->layers[n];
      if (HasProducts(*layer.type)) Judge(layer, losses.Of(n));
    }
  }

  void Judge(const PlannedLayer& layer, const Loss& loss) {
    const Int8Range& input = ranges_[static_cast<size_t>(layer.inputs[0])];
    QuantizedLayer row{.name = layer.name(),
                       .type = layer.type->name,
                       .snr_db = loss.SnrDb(),
                       .relative_error = loss.RelativeError(),
                       .accumulated_error = kUnknown,
                       .input_max = input.max()};
    if (std::ranges::find(options_.keep_float, row.name) != options_.keep_float.end()) {
      row.reason = "as asked";
    } else if (written_.contains(row.name)) {
      row.reason = "as the net says";
    } else if (layer.inputs.size() != 1) {
      row.reason = "has several inputs";
    } else if (!input.has_max()) {
      row.reason = "its input is 0 everywhere";
    } else if (std::isnan(row.snr_db)) {
      row.reason = "its output is 0 everywhere";
    } else if (row.snr_db < options_.least_snr_db) {
      row.reason = "loses too much";
    } else {
      row.quantized = true;
    }
    if (!row.quantized) stays_float_.insert(row.name);
    result_.report.layers.push_back(std::move(row));
  }

  // Measures the losses of the net with its current precisions.
  void MeasureAll() {
    const auto plan = PlanOf(result_.net, {}, state_, registry_, options_.threads, true);
    Session session(plan, weights_, ExecContext(options_.threads, 1));
    session.FixWeights();
    AccumulatedLosses losses(*plan, session_);
    session.set_observer(&losses);
    std::vector<Loss> outputs(plan->outputs.size());
    for (int64_t i = 0; i < ErrorBatches() && inputs_(ErrorBatch(i), session_); ++i) {
      session_.Forward();
      inputs_(ErrorBatch(i), session);
      session.Forward();
      for (size_t o = 0; o < outputs.size(); ++o) {
        const std::string& name = plan->values[static_cast<size_t>(plan->outputs[o])].name;
        const ConstTensorView right = session_.Data(name), made = session.Data(name);
        if (right.empty() || made.empty() || right.dtype() != DType::kF32 ||
            right.count() != made.count()) {
          continue;
        }
        outputs[o].Add(right.span<float>(), made.span<float>());
      }
    }
    for (QuantizedLayer& row : result_.report.layers) {
      const auto found = losses.by_layer().find(row.name);
      if (found != losses.by_layer().end()) row.accumulated_error = found->second.RelativeError();
    }
    for (size_t o = 0; o < outputs.size(); ++o) {
      result_.report.outputs.push_back(
          {.name = plan->values[static_cast<size_t>(plan->outputs[o])].name,
           .type = {},
           .snr_db = outputs[o].SnrDb(),
           .accumulated_error = outputs[o].RelativeError()});
    }
  }

  const NetState& state_;
  const Registry& registry_;
  const std::shared_ptr<const Weights> weights_;
  const CalibrationInputs& inputs_;
  const QuantizeOptions& options_;
  const std::map<std::string, Precision> written_;
  const std::shared_ptr<const Plan> plan_;
  Session session_;
  std::vector<Int8Range> ranges_;  // by value
  std::set<std::string> stays_float_;
  QuantizeResult result_;
};

}  // namespace

QuantizeResult QuantizeModel(const NetParameter& net, const SourceMap& source,
                             const NetState& state, const Registry& registry,
                             const std::shared_ptr<const Weights>& weights,
                             const CalibrationInputs& inputs, const QuantizeOptions& options) {
  if (!inputs) {
    Fail(ErrorCode::kInvalidArgument,
         "INT8 needs a calibration list: ranges of blobs come from data as the net will see");
  }
  if (!(options.percentile > 0 && options.percentile <= 100)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the percentile must be above 0 and at most 100, not ", options.percentile));
  }
  return Quantizer(net, source, state, registry, weights, inputs, options).Run();
}

}  // namespace crema
