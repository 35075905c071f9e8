// Quantizes a trained net to int8: determines ranges from runs in single precision, measures the
// loss of each layer, and keeps layers with large losses in single precision.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "plan/plan.h"
#include "quantization/range_rule.h"
#include "runtime/session.h"
#include "runtime/weights.h"

namespace crema {

// Writes batch `index` (from 0) to the inputs of a session of the net (MutableData); returns false
// at the end. Called in order, from 0 again for each pass over the list; some passes skip batches.
// For nets whose data layers read by themselves, it returns true for the desired number of runs.
// May throw.
using CalibrationInputs = std::function<bool(int64_t index, Session& session)>;

struct QuantizeOptions {
  // Entropy cuts off too much in some layers of slim-320 (bench/results/int8.md).
  RangeRule rule = RangeRule::kPercentile;
  double percentile = 99.99;  // for RangeRule::kPercentile
  // Layers with a lower signal-to-noise ratio stay in single precision: at 20 dB, the rounding
  // error of weights and input is a tenth of the output.
  double least_snr_db = 20;
  // Names of further layers to keep in single precision, besides those with an explicit precision.
  std::vector<std::string> keep_float = {};
  // Maximum number of batches, spread over the list, to measure losses on
  int64_t error_batches = 16;
  int threads = 1;
};

struct QuantizedLayer {
  std::string name;
  std::string type;
  bool quantized = false;
  std::string reason = {};  // why it is not quantized
  // Signal-to-noise ratio of the output with only this layer's weights and input as bytes: 10 log10
  // of the ratio of the sums of squares. NaN: not measured.
  double snr_db = 0;
  double relative_error = 0;  // square root of noise / signal
  // The relative error with all quantized layers active, hence including the errors of earlier
  // layers. Refers to the final blob after in-place layers. NaN: not observable.
  double accumulated_error = 0;
  float input_max = 0;  // range of its input
};

struct QuantizeReport {
  std::vector<QuantizedLayer> layers;   // convolutions and inner products, in order
  std::vector<QuantizedLayer> outputs;  // outputs of the net: only name and accumulated_error
  int64_t batches = 0;

  int64_t Quantized() const;
  std::string Text() const;  // a table with one line per layer
  std::string Json() const;  // one object
};

struct QuantizeResult {
  NetParameter net;  // with `precision: INT8` and the ranges; without blobs
  QuantizeReport report;
};

// `net` is upgraded and `weights` are those of its plan. Uses int8 implementations if this build
// and processor have them; the losses of single layers do not depend on that. Throws
// kInvalidArgument: no batches, a blob that is not finite, a constant input, an unknown layer to
// keep, or nothing left to quantize.
QuantizeResult QuantizeModel(const NetParameter& net, const SourceMap& source,
                             const NetState& state, const Registry& registry,
                             const std::shared_ptr<const Weights>& weights,
                             const CalibrationInputs& inputs, const QuantizeOptions& options);

}  // namespace crema
