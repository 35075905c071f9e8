// A trained net made ready to compute on bytes: ranges from runs in single precision, what each
// layer loses, and which layers therefore stay as they are.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "quantization/range_rule.h"
#include "runtime/session.h"
#include "runtime/weights.h"

namespace crema {

// Batch `index` (from 0) into the inputs of a session of the net (MutableData); false: there are no
// more. Asked in order, and from 0 again for each pass over the list, of which some leave batches
// out; nets whose data layers read for themselves return true as often as they should run. May
// throw.
using CalibrationInputs = std::function<bool(int64_t index, Session& session)>;

struct QuantizeOptions {
  // Entropy cut off too much of some layers of slim-320 (bench/results/int8.md).
  RangeRule rule = RangeRule::kPercentile;
  double percentile = 99.99;  // of RangeRule::kPercentile
  // Layers whose own signal-to-noise ratio is below this stay in single precision: rounding of
  // their weights and of their input is then more than a tenth of what they give.
  double least_snr_db = 20;
  // Layers that do in any case, by name, as those do for which the net says another precision.
  std::vector<std::string> keep_float = {};
  int64_t error_batches = 16;  // spread over the list, at most, in which losses are measured
  int threads = 1;
};

struct QuantizedLayer {
  std::string name;
  std::string type;
  bool quantized = false;
  std::string reason = {};  // why not
  // Of its output, with weights and input as bytes and all else in single precision: 10 log10 of
  // the ratio of the sums of squares. NaN: it was not measured.
  double snr_db = 0;
  double relative_error = 0;  // the square root of noise / signal
  // The same of a net whose layers are all quantized as this table says, so with what those before
  // have lost; of the blob that it, and what follows it in place, gives. NaN: it cannot be seen.
  double accumulated_error = 0;
  float input_max = 0;  // the range of its input
};

struct QuantizeReport {
  std::vector<QuantizedLayer> layers;   // convolutions and inner products, in order
  std::vector<QuantizedLayer> outputs;  // of the net: name and accumulated_error alone
  int64_t batches = 0;

  int64_t Quantized() const;
  std::string Text() const;  // a table, a line each
  std::string Json() const;  // one object
};

struct QuantizeResult {
  NetParameter net;  // with `precision: INT8` and the ranges; without blobs
  QuantizeReport report;
};

// `net` is upgraded and `weights` are those of a plan of it. Rows on bytes are taken where this
// build and processor have them; errors of layers alone do not depend on that. Throws
// kInvalidArgument: no batches, a blob that is not finite, an input that is the same number
// everywhere, a layer to keep that is not there, nothing left to quantize.
QuantizeResult QuantizeModel(const NetParameter& net, const SourceMap& source,
                             const NetState& state, const Registry& registry,
                             const std::shared_ptr<const Weights>& weights,
                             const CalibrationInputs& inputs, const QuantizeOptions& options);

}  // namespace crema
