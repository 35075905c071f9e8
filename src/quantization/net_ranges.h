// Internal: the ranges of all blobs of a net, from runs in single precision.
#pragma once

#include <map>
#include <vector>

#include "plan/plan.h"
#include "quantization/quantize.h"
#include "quantization/value_histogram.h"
#include "runtime/layer_observer.h"

namespace crema {

// Histograms of the values of a plan without passes, filled while a session runs. Throws
// kInvalidArgument as soon as a blob is not finite. Thread safety: one thread.
class NetHistograms final : public LayerObserver {
 public:
  explicit NetHistograms(const Plan& plan);

  void AfterForward(size_t layer, const ForwardArgs& args) override;

  // By value; views and what Splits give are what they are made of. Values that are not wanted have
  // an empty one.
  const ValueHistogram& Of(int value) const;
  // Throws kInvalidArgument for an input of the net that is the same number everywhere.
  void CheckInputs() const;

 private:
  const Plan& plan_;
  std::vector<int> made_as_;  // by value: the one that is written
  std::vector<bool> wanted_;  // by value: somebody may compute on its bytes
  std::map<int, ValueHistogram> histograms_;
};

// By value; those without `max` have none: they are not wanted, or 0 everywhere. What Dropout and
// pooling of maxima read and give has one range, and what a Concat does, unless some of it would
// lose more than options.least_snr_db by that.
std::vector<Int8Range> RangesOf(const Plan& plan, const NetHistograms& histograms,
                                const QuantizeOptions& options);

// Puts ranges into the layers of `net`, which is Plan::written of that plan.
void WriteRanges(const Plan& plan, const std::vector<Int8Range>& ranges, NetParameter* net);

}  // namespace crema
