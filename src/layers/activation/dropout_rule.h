// Parameters and random stream of Dropout; see dropout.cc.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/rng.h"
#include "crema.pb.h"
#include "graph/layer.h"

namespace crema {

struct DropoutRule {
  explicit DropoutRule(const DropoutParameter& param)
      : ratio(param.dropout_ratio()),
        scales_in_training(param.scale_train()),
        own_seed(param.random_seed()) {}

  double TrainScale() const { return scales_in_training ? 1.0 / (1.0 - ratio) : 1.0; }
  // Returns the threshold: an element whose 32 random bits are below it becomes 0.
  uint32_t Threshold() const { return static_cast<uint32_t>(std::ldexp(ratio, 32)); }
  RandomStream Stream(const ForwardArgs& args) const {
    return {own_seed >= 0 ? static_cast<uint64_t>(own_seed) : args.context.seed(), args.layer_id,
            args.context.step()};
  }

  float ratio;
  bool scales_in_training;
  int64_t own_seed;
};

}  // namespace crema
