#include "layers/convolution/conv_epilogue.h"

#include <algorithm>
#include <utility>

#include "crema.pb.h"
#include "layers/activation/fused_activation.h"
#include "layers/channel_affine.h"
#include "layers/is_residual_add.h"

namespace crema {
namespace {

const ChannelAffine* AffineOf(const Layer& layer) {
  const auto* affine = dynamic_cast<const ChannelAffine*>(&layer);
  return affine != nullptr && affine->IsChannelAffine(layer.param().phase()) ? affine : nullptr;
}

}  // namespace

ConvEpilogue::ConvEpilogue(const Convolution& convolution, std::span<const Layer* const> fused)
    : relu_(ReluOf(convolution, {})) {
  for (const Layer* layer : fused) possible_ = possible_ && Take(*layer);
  relu_ = ReluOf(convolution, fused);
}

bool ConvEpilogue::Take(const Layer& layer) {
  if (activation_.on()) return false;
  if (layer.param().type() == "ReLU") {
    // Slopes multiply (ReluOf) as long as the sign stays, so nothing follows one below 0.
    if (relu_.on && relu_.slope < 0) return false;
    relu_ = {true, layer.param().relu_param().negative_slope()};
    return true;
  }
  if (relu_.on) return false;  // nothing follows a ReLU but another
  if (AffineOf(layer) != nullptr && !sum_) {
    affine_.push_back(&layer);
    return true;
  }
  if (IsResidualAdd(layer.param()) && !sum_) {
    sum_ = true;
    return true;
  }
  activation_ = ActivationOf(layer);
  return activation_.on();
}

size_t ConvEpilogue::AffineBlobs() const {
  size_t blobs = 0;
  for (const Layer* layer : affine_) blobs += AffineOf(*layer)->AffineBlobs();
  return blobs;
}

void ConvEpilogue::ReadAffine(std::span<const ConstTensorView> parameters, std::span<float> factor,
                              std::span<float> shift) const {
  std::vector<double> factors(factor.size(), 1);
  std::vector<double> shifts(factor.size(), 0);
  std::vector<double> f(factor.size());
  std::vector<double> s(factor.size());
  for (const Layer* layer : affine_) {
    const ChannelAffine& affine = *AffineOf(*layer);
    affine.ReadChannelAffine(parameters.first(affine.AffineBlobs()), f, s);
    parameters = parameters.subspan(affine.AffineBlobs());
    for (size_t c = 0; c < f.size(); ++c) {
      factors[c] *= f[c];
      shifts[c] = shifts[c] * f[c] + s[c];
    }
  }
  std::ranges::transform(factors, factor.begin(), [](double v) { return static_cast<float>(v); });
  std::ranges::transform(shifts, shift.begin(), [](double v) { return static_cast<float>(v); });
}

ConvEpilogueNumbers::ConvEpilogueNumbers(const OpDesc& query)
    : epilogue_(static_cast<const Convolution&>(query.layer), query.fused),
      has_bias_(static_cast<const Convolution&>(query.layer).has_bias()) {
  if (!epilogue_.affine()) return;
  factor_.resize(static_cast<size_t>(query.layer.param().convolution_param().num_output()));
  shift_.resize(factor_.size());
}

ConvParameters ConvEpilogueNumbers::Read(const ForwardArgs& args) {
  ConvParameters parameters;
  parameters.weight = args.parameters[0].data<float>();
  if (has_bias_) parameters.bias = args.parameters[1].data<float>();
  if (!epilogue_.affine()) return parameters;
  if (!args.weights_fixed || !std::exchange(read_, true)) {
    epilogue_.ReadAffine(args.parameters.subspan(has_bias_ ? 2 : 1), factor_, shift_);
  }
  parameters.factor = factor_.data();
  parameters.shift = shift_.data();
  return parameters;
}

}  // namespace crema
