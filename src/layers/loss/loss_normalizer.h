// Ignored labels and normalization of losses: the shared fields of LossParameter.
#pragma once

#include <cstdint>
#include <optional>

#include "crema.pb.h"
#include "graph/layer.h"

namespace crema {

// Numbers of positions of a batch, each the divisor of one normalization mode.
struct LossPositions {
  int64_t outer = 0;    // BATCH_SIZE
  int64_t all = 0;      // FULL
  int64_t counted = 0;  // VALID: positions that are not ignored
};

// Thread safety: const after construction.
class LossNormalizer {
 public:
  // `unset` is the mode if the net does not set one. Throws if pre_fixed_normalizer is invalid.
  explicit LossNormalizer(const Layer& layer,
                          LossParameter::NormalizationMode unset = LossParameter::VALID);

  // Returns at least 1, as in Caffe: a batch without positions has loss 0.
  double Divisor(const LossPositions& positions) const;
  // Returns true if the divisor depends on `counted`.
  bool counts() const { return mode_ == LossParameter::VALID; }

 private:
  const LossParameter::NormalizationMode mode_;
  const double pre_fixed_;
};

std::optional<int32_t> IgnoredLabel(const LossParameter& param);

}  // namespace crema
