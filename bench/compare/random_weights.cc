#include "compare/random_weights.h"

#include <algorithm>
#include <utility>

#include "compare/runner_inputs.h"
#include "crema.pb.h"

namespace crema::compare {
namespace {

constexpr uint64_t kSeed = 1;

void SetGaussian(float mean, float deviation, FillerParameter* filler) {
  filler->Clear();
  filler->set_type("gaussian");
  filler->set_mean(mean);
  filler->set_std(deviation);
}

// For layers whose product is followed by a ReLU; others may well be a little louder.
void SetMsra(FillerParameter* filler) {
  filler->Clear();
  filler->set_type("msra");
}

constexpr float kBiasDeviation = 0.1F;

}  // namespace

void SetFillers(NetParameter* net) {
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.has_convolution_param()) {
      ConvolutionParameter* param = layer.mutable_convolution_param();
      SetMsra(param->mutable_weight_filler());
      SetGaussian(0, kBiasDeviation, param->mutable_bias_filler());
    }
    if (layer.has_inner_product_param()) {
      InnerProductParameter* param = layer.mutable_inner_product_param();
      SetMsra(param->mutable_weight_filler());
      SetGaussian(0, kBiasDeviation, param->mutable_bias_filler());
    }
    if (layer.type() == "LayerNorm") {
      LayerNormParameter* param = layer.mutable_layer_norm_param();
      SetGaussian(1, kBiasDeviation, param->mutable_weight_filler());
      SetGaussian(0, kBiasDeviation, param->mutable_bias_filler());
    }
    if (layer.type() == "Scale") {
      SetGaussian(1, kBiasDeviation, layer.mutable_scale_param()->mutable_filler());
      SetGaussian(0, kBiasDeviation, layer.mutable_scale_param()->mutable_bias_filler());
    }
  }
}

std::shared_ptr<Weights> MakeRandomWeights(std::shared_ptr<const Plan> plan,
                                           const std::map<std::string, Shape>& integers,
                                           int threads) {
  std::shared_ptr<Weights> weights = Weights::Make(*plan, kSeed);
  if (std::ranges::none_of(plan->parameters, &ParameterSlot::statistic)) return weights;
  const RunnerInputs inputs(*plan, integers);
  Session session(std::move(plan), weights, ExecContext(threads));
  inputs.CopyTo(&session);
  session.Forward();
  return weights;
}

}  // namespace crema::compare
