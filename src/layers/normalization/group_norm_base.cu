// GroupNorm, InstanceNorm, LayerNorm, MVN, Normalize and RMSNorm on the GPU; see
// group_norm_base.cc.
#include "layers/gpu_implementation.h"
#include "layers/normalization/group_norm_base.h"
#include "layers/normalization/norm_passes.cuh"

namespace crema {
namespace {

enum Saved : size_t { kFactors, kNormal };

const GroupNormBase& NormOf(const Layer& layer) { return static_cast<const GroupNormBase&>(layer); }

// Computes center[g] and inverse[g]. `saved` gets inverses and spreads, and may be null.
template <typename T>
void Measure(const CudaQueue& queue, const GroupNormBase& norm, const GroupLayout& groups,
             const T* x, SumPair* scratch, float* center, float* inverse, double* saved) {
  const NormMeasure measure = norm.rule().measure;
  const double eps = norm.rule().eps;
  const int64_t count = groups.Groups();
  const auto size = static_cast<double>(std::max<int64_t>(1, groups.GroupSize()));
  const auto finish = [=] CREMA_HOST_DEVICE(int64_t g, double mean, double value) {
    const NormFactors factors = FactorsOf(measure, eps, size, value);
    center[g] = static_cast<float>(mean);
    inverse[g] = static_cast<float>(factors.inverse);
    if (saved == nullptr) return;
    saved[g] = factors.inverse;
    saved[count + g] = factors.spread;
  };
  if (norm.Centered()) return GroupMoments(queue, groups, x, scratch, finish);
  SumGroups(
      queue, groups,
      [=] CREMA_HOST_DEVICE(int64_t, int64_t at) {
        const double value = static_cast<double>(ToFloat(x[at]));
        return SumPair{value * value, 0};
      },
      scratch, [=] CREMA_HOST_DEVICE(int64_t g, SumPair sums) { finish(g, 0, sums.first); });
}

struct GpuGroupNorm {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const GroupNormBase& norm = NormOf(layer);
    const NormLayout layout = norm.Layout(args.inputs[0].shape());
    ScratchCutter cutter(args.scratch);
    auto* scratch = cutter.Take<SumPair>(GroupSumsScratch(layout.groups));
    float* center = cutter.Take<float>(layout.groups.Groups());
    float* inverse = cutter.Take<float>(layout.groups.Groups());
    NormForward<T> pass;
    pass.x = args.x();
    pass.y = args.y();
    pass.inverse = inverse;
    if (norm.Centered()) pass.center = center;
    if (norm.rule().scale) pass.scale = args.w(0);
    if (norm.rule().shift) pass.shift = args.w(norm.rule().scale ? 1 : 0);
    if (norm.Affine()) pass.normal = args.template Saved<T>(kNormal);
    Measure(args.queue, norm, layout.groups, pass.x, scratch, center, inverse,
            args.template Saved<double>(kFactors));
    NormalizeForward(args.queue, layout, pass);
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const GroupNormBase& norm = NormOf(layer);
    const NormLayout layout = norm.Layout(args.output_grads[0].shape());
    const bool by_sum = norm.rule().measure == NormMeasure::kSumOfSquares;
    const int64_t size = std::max<int64_t>(1, layout.groups.GroupSize());
    NormBackward<T> pass;
    pass.dy = args.dy();
    pass.dx = args.dx();
    pass.inverse = args.template Saved<double>(kFactors);
    pass.spread = pass.inverse + layout.groups.Groups();
    pass.centered = norm.Centered();
    pass.divisor = by_sum ? 1 : static_cast<double>(size);
    if (norm.rule().scale) {
      pass.scale = args.w(0);
      pass.dscale = args.dw(0);
    }
    if (norm.rule().shift) pass.dshift = args.dw(norm.rule().scale ? 1 : 0);
    if (norm.Affine()) {
      pass.normal = args.template Saved<T>(kNormal);
    } else if (norm.rule().measure != NormMeasure::kMean) {
      pass.normal = args.y();
    }
    NormalizeBackward(args.queue, layout, pass, args.scratch);
  }

  static size_t ForwardScratch(const OpDesc& query) {
    return NormForwardScratch(NormOf(query.layer).Layout(query.context.inputs[0].shape));
  }
  static size_t BackwardScratch(const OpDesc& query) {
    return NormBackwardScratch(NormOf(query.layer).Layout(query.context.inputs[0].shape));
  }
};

}  // namespace

void RegisterGroupNormCuda(Registry& registry) {
  for (const char* type :
       {"GroupNorm", "InstanceNorm", "LayerNorm", "MVN", "Normalize", "NormalizeBBox", "RMSNorm"}) {
    registry.AddImplementation(type, CudaImplementation<GpuGroupNorm>());
  }
}

}  // namespace crema
