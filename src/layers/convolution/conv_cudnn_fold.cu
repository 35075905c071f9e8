#include <algorithm>
#include <cmath>

#include "crema.pb.h"
#include "layers/channel_affine.h"
#include "layers/convolution/conv_cudnn_fold.h"
#include "layers/gpu_implementation.h"
#include "layers/normalization/batch_norm_base.h"

namespace crema {
namespace {

constexpr int kMostSteps = 4;

// One folded layer: y = (x - mean) / sqrt(variance + eps) * scale + shift. Null means absent.
// Stored means and variances are divided by `divisor`; a divisor of 0 makes them 0.
struct Step {
  const float* mean = nullptr;
  const float* variance = nullptr;
  const float* divisor = nullptr;
  const float* scale = nullptr;
  const float* shift = nullptr;
  double eps = 0;
};

struct Steps {
  Step steps[kMostSteps];
  int count = 0;
};

const ChannelAffine* AffineOf(const Layer& layer) {
  const auto* affine = dynamic_cast<const ChannelAffine*>(&layer);
  return affine != nullptr && affine->IsChannelAffine(layer.param().phase()) ? affine : nullptr;
}

Step StepOf(const Layer& layer, std::span<const ConstTensorView> parameters) {
  const auto at = [&](int index) {
    return index == BatchNormRule::kNone ? nullptr
                                         : Elements<float>(parameters[static_cast<size_t>(index)]);
  };
  Step step;
  if (const auto* norm = dynamic_cast<const BatchNormBase*>(&layer); norm != nullptr) {
    const BatchNormRule& rule = norm->rule();
    step.scale = at(rule.scale);
    step.shift = at(rule.shift);
    if (rule.identity) return step;
    step.mean = at(rule.mean);
    step.variance = at(rule.variance);
    step.divisor = at(rule.factor);
    step.eps = rule.eps;
    return step;
  }
  step.scale = at(0);
  if (parameters.size() > 1) step.shift = at(1);
  return step;
}

template <typename T>
void FoldChannels(const CudaQueue& queue, int64_t channels, const Steps& all, const T* own,
                  float* factor, T* bias) {
  ForElements(queue, "FoldChannels", channels, [=] CREMA_HOST_DEVICE(int64_t c) {
    double f = 1;
    double s = own == nullptr ? 0.0 : static_cast<double>(ToFloat(own[c]));
    for (int i = 0; i < all.count; ++i) {
      const Step& step = all.steps[i];
      if (step.mean != nullptr) {
        double stored = step.divisor == nullptr ? 1.0 : static_cast<double>(step.divisor[0]);
        if (step.divisor != nullptr && stored != 0) stored = 1 / stored;
        const double variance = stored * static_cast<double>(step.variance[c]);
        const double inverse = 1 / std::sqrt(variance + step.eps);
        f *= inverse;
        s = (s - stored * static_cast<double>(step.mean[c])) * inverse;
      }
      if (step.scale != nullptr) {
        f *= static_cast<double>(step.scale[c]);
        s *= static_cast<double>(step.scale[c]);
      }
      if (step.shift != nullptr) s += static_cast<double>(step.shift[c]);
    }
    factor[c] = static_cast<float>(f);
    bias[c] = FromFloat<T>(static_cast<float>(s));
  });
}

template <typename T>
void FoldWeights(const CudaQueue& queue, int64_t count, int64_t depth, const float* factor,
                 const T* weight, T* folded) {
  ForElements(queue, "FoldWeights", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    folded[i] = FromFloat<T>(factor[i / depth] * ToFloat(weight[i]));
  });
}

}  // namespace

ConvFold::ConvFold(bool has_bias, std::span<const Layer* const> fused) : has_bias_(has_bias) {
  for (const Layer* layer : fused) {
    if (AffineOf(*layer) != nullptr) layers_.push_back(layer);
  }
}

bool ConvFold::possible() const {
  return layers_.size() <= kMostSteps && std::ranges::all_of(layers_, [](const Layer* layer) {
           return dynamic_cast<const BatchNormBase*>(layer) != nullptr ||
                  layer->param().type() == "Scale";
         });
}

void ConvFold::Make(const ForwardArgs& args) {
  if (made_) return;
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& weight = args.parameters[0];
  const int64_t channels = weight.shape()[0];
  if (weight_.view().empty()) {
    Allocator& memory = args.context.allocator();
    factor_ = Tensor(Shape{channels}, DType::kF32, memory);
    weight_ = Tensor(weight.shape(), weight.dtype(), memory);
    bias_ = Tensor(Shape{channels}, weight.dtype(), memory);
  }
  Steps all;
  std::span<const ConstTensorView> parameters = args.parameters.subspan(has_bias_ ? 2 : 1);
  for (const Layer* layer : layers_) {
    const size_t blobs = AffineOf(*layer)->AffineBlobs();
    all.steps[all.count++] = StepOf(*layer, parameters.first(blobs));
    parameters = parameters.subspan(blobs);
  }
  DispatchCudaFloat(weight.dtype(), [&]<typename T>(T) {
    const T* own = has_bias_ ? Elements<T>(args.parameters[1]) : nullptr;
    FoldChannels(queue, channels, all, own, factor_.view().data<float>(),
                 Elements<T>(bias_.view()));
    FoldWeights(queue, weight.count(), weight.count() / channels, factor_.view().data<float>(),
                Elements<T>(weight), Elements<T>(weight_.view()));
  });
  // Weights folded before they were fixed may have changed since.
  made_ = args.weights_fixed;
}

size_t ConvFold::Bytes(int64_t filter_count, int64_t channels, DType dtype) {
  return static_cast<size_t>(filter_count + channels) * SizeOf(dtype) +
         static_cast<size_t>(channels) * sizeof(float);
}

}  // namespace crema
