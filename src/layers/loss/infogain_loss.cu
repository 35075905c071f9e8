// InfogainLoss on the GPU, with the matrix as input 2; see infogain_loss.cc.
#include "layers/loss/softmax_loss.cuh"

namespace crema {
namespace {

// A Rule as described in softmax_loss.cuh.
template <typename T>
struct InfogainRule {
  GpuLabels<T> labels;
  const T* matrix;  // one row per label

  explicit InfogainRule(const SoftmaxInputs<T>& given)
      : labels(given.labels), matrix(Elements<T>(given.inputs[2])) {}

  struct Prepared {
    int64_t label;
    float sum;  // sum of the matrix row of the label
  };

  // NaN stays NaN.
  CREMA_HOST_DEVICE static float Floored(float log_p) {
    constexpr float kLeast = -46.05170186f;  // ln 1e-20
    return log_p < kLeast ? kLeast : log_p;
  }

  CREMA_HOST_DEVICE float Of(int64_t label, int64_t c) const {
    return ToFloat(matrix[label * labels.classes + c]);
  }

  template <typename Workers, typename LogP>
  CREMA_HOST_DEVICE float Cost(const Workers& workers, int64_t position, const LogP& log_p) const {
    const int64_t label = labels(position);
    if (label < 0) return label == kIgnoredLabel ? 0 : NotANumber();
    return -workers.Sum(labels.classes,
                        [&](int64_t c) { return Of(label, c) * Floored(log_p(c)); });
  }

  template <typename Workers, typename P>
  CREMA_HOST_DEVICE Prepared Prepare(const Workers& workers, int64_t position, const P&) const {
    const int64_t label = labels(position);
    if (label < 0) return {label, 0};
    return {label, workers.Sum(labels.classes, [&](int64_t c) { return Of(label, c); })};
  }

  CREMA_HOST_DEVICE float Slope(const Prepared& prepared, int64_t, int64_t c, float p) const {
    if (prepared.label < 0) return 0;
    return p * prepared.sum - Of(prepared.label, c);
  }
};

Support Supports(const OpDesc& query) {
  if (query.context.inputs.size() < 3) return Support::No("the matrix of a file is on the CPU");
  return SupportsCudaFloats(query);
}

}  // namespace

void RegisterInfogainLossCuda(Registry& registry) {
  registry.AddImplementation("InfogainLoss", MakeSoftmaxLossImplementation<InfogainRule>(Supports));
}

}  // namespace crema
