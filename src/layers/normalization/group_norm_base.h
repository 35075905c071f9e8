// Base of layers that normalise groups of features of each sample separately: LayerNorm, GroupNorm,
// InstanceNorm, RMSNorm, MVN and Normalize.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "graph/registry.h"
#include "layers/normalization/group_normalize.h"
#include "layers/normalization/norm_factors.h"

namespace crema {

struct GroupNormRule {
  NormMeasure measure = NormMeasure::kVariance;
  double eps = 0;
  bool scale = false;
  bool shift = false;
  Filler scale_filler = {};
  Filler shift_filler = {};
};

class GroupNormBase : public Layer {
 public:
  LayerInfo Infer(const InferContext& context) const final;
  void Forward(const ForwardArgs& args) const final;
  void Backward(const BackwardArgs& args) const final;
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info,
                        int threads) const final;
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info,
                         int threads) const final;

  const GroupNormRule& rule() const { return rule_; }
  NormLayout Layout(const Shape& input) const { return Arrange(input); }
  bool Affine() const { return rule_.scale || rule_.shift; }
  bool Centered() const;

 protected:
  GroupNormBase(const LayerParameter& param, GroupNormRule rule)
      : Layer(param), rule_(std::move(rule)) {}

  // Returns the groups and channels of an input. Throws if the layer does not take its shape.
  virtual NormLayout Arrange(const Shape& input) const = 0;
  virtual Shape AffineShape(const Shape& input) const = 0;

 private:
  // Computes the factors from variances or sums of squares.
  void Invert(const NormLayout& layout, const double* measure, double* inverse,
              double* spread) const;

  const GroupNormRule rule_;
};

// Normalises over the axes from one on, with a scale and a bias for each element of them:
// LayerNorm, RMSNorm.
class TrailingNorm : public GroupNormBase {
 protected:
  // `field` is the path of the axis, for error messages.
  TrailingNorm(const LayerParameter& param, GroupNormRule rule, int64_t axis,
               std::string_view field)
      : GroupNormBase(param, std::move(rule)), axis_(axis), field_(field) {}

 private:
  NormLayout Arrange(const Shape& input) const final;
  Shape AffineShape(const Shape& input) const final;

  const int64_t axis_;
  const std::string_view field_;
};

// Throws, naming `field`, unless eps is finite and not negative.
void ValidateEps(const Layer& layer, double eps, const std::string& field);

}  // namespace crema
