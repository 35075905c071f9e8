// FocalLoss on the GPU; see focal_loss.cc.
#include <cfloat>

#include "crema.pb.h"
#include "layers/loss/softmax_loss.cuh"
#include "layers/loss/softmax_rules.h"

namespace crema {
namespace {

// A Rule as described in softmax_loss.cuh.
template <typename T>
struct FocalRule {
  GpuLabels<T> labels;
  float alpha, gamma;

  explicit FocalRule(const SoftmaxInputs<T>& given)
      : labels(given.labels),
        alpha(given.layer.param().focal_loss_param().alpha()),
        gamma(given.layer.param().focal_loss_param().gamma()) {}

  struct Prepared {
    int64_t label;
    float pull;
  };

  // Returns q; NaN stays NaN.
  CREMA_HOST_DEVICE static float Floored(float p) { return p < FLT_MIN ? FLT_MIN : p; }

  template <typename Workers, typename LogP>
  CREMA_HOST_DEVICE float Cost(const Workers&, int64_t position, const LogP& log_p) const {
    const int64_t label = labels(position);
    if (label < 0) return label == kIgnoredLabel ? 0 : NotANumber();
    return FocalCost(alpha, gamma, Floored(std::exp(log_p(label))));
  }

  template <typename Workers, typename P>
  CREMA_HOST_DEVICE Prepared Prepare(const Workers&, int64_t position, const P& p) const {
    const int64_t label = labels(position);
    return {label, label < 0 ? 0 : FocalPull(alpha, gamma, Floored(p(label)))};
  }

  CREMA_HOST_DEVICE float Slope(const Prepared& prepared, int64_t, int64_t c, float p) const {
    if (prepared.label < 0) return 0;
    return prepared.pull * ((c == prepared.label ? 1 : 0) - p);
  }
};

}  // namespace

void RegisterFocalLossCuda(Registry& registry) {
  registry.AddImplementation("FocalLoss", MakeSoftmaxLossImplementation<FocalRule>());
}

}  // namespace crema
