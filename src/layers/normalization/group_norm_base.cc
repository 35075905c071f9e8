#include "layers/normalization/group_norm_base.h"

#include <cmath>

#include "core/strings.h"
#include "layers/layer_axis.h"
#include "math/scratch.h"

namespace crema {
namespace {

enum Saved : size_t { kFactors, kNormal };

template <typename T, typename View>
auto DataOrNull(const View& view) {
  return view.empty() ? nullptr : view.template data<T>();
}

}  // namespace

void ValidateEps(const Layer& layer, double eps, const std::string& field) {
  if (std::isfinite(eps) && eps >= 0) return;
  FailField(layer, field, StrCat("eps is ", eps, ", but must be 0 or more"));
}

bool GroupNormBase::Centered() const {
  return rule_.measure != NormMeasure::kMeanSquare && rule_.measure != NormMeasure::kSumOfSquares;
}

LayerInfo GroupNormBase::Infer(const InferContext& context) const {
  const BlobSpec& input = context.inputs[0];
  const NormLayout layout = Arrange(input.shape);
  LayerInfo info;
  info.outputs = {input};
  const bool within_sample = layout.groups.GroupSize() <= input.shape.count(1);
  info.reach = within_sample ? Reach::kSample : Reach::kAll;
  info.in_place = true;
  const Shape affine = AffineShape(input.shape);
  if (rule_.scale) info.parameters.push_back({"scale", affine, rule_.scale_filler});
  if (rule_.shift) info.parameters.push_back({"bias", affine, rule_.shift_filler});
  const bool divides = rule_.measure != NormMeasure::kMean;
  // Saves the inverses and spreads; then the normalised input, if y differs from it.
  info.saved = {{{2, layout.groups.Groups()}, DType::kF64}};
  if (Affine()) info.saved.push_back(input);
  info.backward_reads_output = {!Affine() && divides};
  return info;
}

size_t GroupNormBase::ForwardScratch(const InferContext& context, const LayerInfo&, int) const {
  const NormLayout layout = Arrange(context.inputs[0].shape);
  return ScratchBytes<double>(GroupNormalizeForwardScratch(layout) + 4 * layout.groups.Groups()) +
         kScratchSlack;
}

size_t GroupNormBase::BackwardScratch(const InferContext& context, const LayerInfo&, int) const {
  const NormLayout layout = Arrange(context.inputs[0].shape);
  return ScratchBytes<double>(GroupNormalizeBackwardScratch(layout)) + kScratchSlack;
}

void GroupNormBase::Invert(const NormLayout& layout, const double* measure, double* inverse,
                           double* spread) const {
  const auto size = static_cast<double>(std::max<int64_t>(1, layout.groups.GroupSize()));
  for (int64_t g = 0; g < layout.groups.Groups(); ++g) {
    const NormFactors factors = FactorsOf(rule_.measure, rule_.eps, size, measure[g]);
    inverse[g] = factors.inverse;
    spread[g] = factors.spread;
  }
}

void GroupNormBase::Forward(const ForwardArgs& args) const {
  const NormLayout layout = Arrange(args.inputs[0].shape());
  const int64_t groups = layout.groups.Groups();
  const int threads = args.context.threads();
  const bool saves = !args.saved.empty() && !args.saved[kFactors].empty();
  double* scratch =
      ScratchCutter(args.scratch).Take<double>(GroupNormalizeForwardScratch(layout) + 4 * groups);
  double* center = scratch;
  double* measure = scratch + groups;
  double* factors = saves ? args.saved[kFactors].data<double>() : scratch + 2 * groups;
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    GroupNormalizeForward<T> pass;
    pass.x = args.inputs[0].data<T>();
    pass.y = args.outputs[0].data<T>();
    if (Centered()) {
      GroupMoments(threads, layout.groups, pass.x, center, measure);
      pass.center = center;
    } else {
      GroupSquares(threads, layout.groups, pass.x, nullptr, measure);
    }
    Invert(layout, measure, factors, factors + groups);
    pass.inverse = factors;
    pass.scale = rule_.scale ? args.parameters[0].data<T>() : nullptr;
    pass.shift = rule_.shift ? args.parameters[rule_.scale ? 1 : 0].data<T>() : nullptr;
    if (saves && Affine()) pass.normal = args.saved[kNormal].data<T>();
    NormalizeGroups(threads, layout, pass, scratch + 4 * groups);
  });
}

void GroupNormBase::Backward(const BackwardArgs& args) const {
  const NormLayout layout = Arrange(args.output_grads[0].shape());
  double* scratch = ScratchCutter(args.scratch).Take<double>(GroupNormalizeBackwardScratch(layout));
  DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
    GroupNormalizeBackward<T> pass;
    pass.dy = args.output_grads[0].data<T>();
    pass.dx = DataOrNull<T>(args.input_grads[0]);
    pass.inverse = args.saved[kFactors].data<double>();
    pass.spread = pass.inverse + layout.groups.Groups();
    pass.centered = Centered();
    pass.divisor = rule_.measure == NormMeasure::kSumOfSquares
                       ? 1
                       : static_cast<double>(std::max<int64_t>(1, layout.groups.GroupSize()));
    if (rule_.scale) {
      pass.scale = args.parameters[0].data<T>();
      pass.dscale = DataOrNull<T>(args.parameter_grads[0]);
    }
    if (rule_.shift) pass.dshift = DataOrNull<T>(args.parameter_grads[rule_.scale ? 1 : 0]);
    if (Affine()) {
      pass.normal = args.saved[kNormal].data<T>();
    } else if (rule_.measure != NormMeasure::kMean) {
      pass.normal = args.outputs[0].data<T>();
    }
    NormalizeGroups(args.context.threads(), layout, pass, scratch);
  });
}

NormLayout TrailingNorm::Arrange(const Shape& input) const {
  const int axis = LayerAxis(*this, input, axis_, field_);
  return {LeadingLayout(input, axis), {1, input.count(0, axis), input.count(axis), 1}};
}

Shape TrailingNorm::AffineShape(const Shape& input) const {
  const int axis = LayerAxis(*this, input, axis_, field_);
  return Shape(input.dims().subspan(static_cast<size_t>(axis)));
}

}  // namespace crema
