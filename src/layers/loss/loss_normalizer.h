// What a loss leaves out and what it divides by: LossParameter, as far as several layers read it.
#pragma once

#include <cstdint>
#include <optional>

#include "crema.pb.h"
#include "graph/layer.h"

namespace crema {

// How many positions a batch has.
struct LossPositions {
  int64_t outer = 0;    // BATCH_SIZE
  int64_t all = 0;      // FULL
  int64_t counted = 0;  // VALID: those that are not ignored
};

// Thread safety: const after construction.
class LossNormalizer {
 public:
  // `unset` is the mode where the text gives none. Throws about pre_fixed_normalizer.
  explicit LossNormalizer(const Layer& layer,
                          LossParameter::NormalizationMode unset = LossParameter::VALID);

  // At least 1, as in Caffe: a batch without positions costs nothing.
  double Divisor(const LossPositions& positions) const;
  // Whether that depends on `counted`.
  bool counts() const { return mode_ == LossParameter::VALID; }

 private:
  const LossParameter::NormalizationMode mode_;
  const double pre_fixed_;
};

std::optional<int32_t> IgnoredLabel(const LossParameter& param);

}  // namespace crema
