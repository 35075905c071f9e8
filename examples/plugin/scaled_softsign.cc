// A plugin for Crema with one layer type: y = scale * x / (1 + |x|).
//   layer { name: "s" type: "ScaledSoftsign" bottom: "x" top: "y"
//           plugin_param { param_str: "scale: 1.5" } }
#include <crema/plugin.h>

#include <cmath>

namespace {

class ScaledSoftsign {
 public:
  explicit ScaledSoftsign(const crema::plugin::Params& params)
      : scale_(params.Number("scale", 1)) {}

  void Infer(crema::plugin::Infer& infer) const {
    infer.SetTop(0, infer.bottom(0));
    infer.SetReach(crema::plugin::Reach::kElement);
    infer.BackwardReadsBottom(0);
  }

  template <typename T>
  void Forward(const crema::plugin::Pass<T>& pass) const {
    const T scale = static_cast<T>(scale_), *x = pass.bottom().data();
    T* y = pass.top().data();
    pass.ParallelFor(pass.top().count(), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = scale * x[i] / (1 + std::abs(x[i]));
    });
  }

  // dx = scale * dy / (1 + |x|)^2
  template <typename T>
  void Backward(const crema::plugin::Pass<T>& pass) const {
    const T scale = static_cast<T>(scale_), *x = pass.bottom().data();
    const T* dy = pass.top_gradient().data();
    T* dx = pass.bottom_gradient().data();
    pass.ParallelFor(pass.bottom_gradient().count(), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T below = 1 + std::abs(x[i]);
        dx[i] = scale * dy[i] / (below * below);
      }
    });
  }

 private:
  const double scale_;
};

}  // namespace

CREMA_PLUGIN("softsign", "1.0", Describe<ScaledSoftsign>("ScaledSoftsign"))
