// Internal: computes the ranges of all blobs of a net from runs in single precision.
#pragma once

#include <map>
#include <vector>

#include "crema.pb.h"
#include "plan/plan.h"
#include "quantization/quantize.h"
#include "quantization/range_rule.h"
#include "runtime/session.h"

namespace crema {

// Histograms of the values of a plan without passes, filled while a session runs. Throws
// kInvalidArgument once a blob is not finite. Thread safety: one thread.
class NetHistograms final : public LayerObserver {
 public:
  explicit NetHistograms(const Plan& plan);

  void AfterForward(size_t layer, const ForwardArgs& args) override;

  // By value; views and outputs of Splits share the histogram of their source. Empty for unwanted
  // values.
  const ValueHistogram& Of(int value) const;
  // Throws kInvalidArgument for a constant input of the net.
  void CheckInputs() const;

 private:
  const Plan& plan_;
  std::vector<int> histogram_of_;  // by value: the value whose histogram is used
  std::vector<bool> wanted_;       // by value: an int8 consumer may read it
  std::map<int, ValueHistogram> histograms_;
};

// By value. Values without `max` have no range: they are unwanted, or 0 everywhere. Input and
// output of Dropout and max pooling share a range, and so do those of a Concat, unless one would
// lose more than options.least_snr_db.
std::vector<Int8Range> RangesOf(const Plan& plan, const NetHistograms& histograms,
                                const QuantizeOptions& options);

// Writes ranges to the layers of `net`, which is Plan::written of that plan.
void WriteRanges(const Plan& plan, const std::vector<Int8Range>& ranges, NetParameter* net);

}  // namespace crema
