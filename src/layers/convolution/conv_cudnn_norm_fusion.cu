#include "layers/convolution/conv_cudnn_norm_fusion.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/group_sums.cuh"
#include "math/scratch.h"

namespace crema {
namespace {

template <typename T>
void Normalize(const CudaQueue& queue, const GroupLayout& channels, const T* x, const T* factor,
               const T* offset, T* y) {
  ForElements(queue, "NormalizeInput", channels.Count(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t c = GroupOfElement(channels, i);
    const float value = ToFloat(x[i]) * ToFloat(factor[c]) + ToFloat(offset[c]);
    y[i] = FromFloat<T>(value <= 0 ? 0 : value);  // NaN stays NaN
  });
}

template <typename T>
struct SquareTerm {
  CREMA_HOST_DEVICE SumPair operator()(int64_t, int64_t at) const {
    const double value = static_cast<double>(ToFloat(y[at]));
    return {value, value * value};
  }
  const T* y;
};

template <typename T>
void SumSquares(const CudaQueue& queue, const GroupLayout& channels, const T* y, SumPair* scratch,
                float* sums) {
  const int64_t count = channels.Groups();
  SumGroups(queue, channels, SquareTerm<T>{y}, scratch,
            [=] CREMA_HOST_DEVICE(int64_t c, SumPair pair) {
              sums[kSumsRow * count + c] = static_cast<float>(pair.first);
              sums[kSquaresRow * count + c] = static_cast<float>(pair.second);
            });
}

// Masks d by the ReLU in place, and gives d and d * normal to be summed.
template <typename T>
struct NormGradientTerm {
  struct Pair {
    float d, normal;
  };
  CREMA_HOST_DEVICE Pair Read(int64_t c, int64_t at) const {
    const float normal = (ToFloat(x[at]) - mean[c]) * inverse[c];
    return {normal * scale[c] + shift[c] > 0 ? ToFloat(d[at]) : 0, normal};
  }
  CREMA_HOST_DEVICE SumPair Take(int64_t, int64_t at, const Pair& read) const {
    d[at] = FromFloat<T>(read.d);
    const double value = static_cast<double>(read.d);
    return {value, value * static_cast<double>(read.normal)};
  }
  const T* x;
  const float *mean, *inverse, *scale, *shift;
  T* d;
};

template <typename T>
void MaskAndSum(const CudaQueue& queue, const GroupLayout& channels,
                const CudnnConvMemory::Norm& norm, T* d, SumPair* scratch) {
  const NormGradientTerm<T> term{.x = static_cast<const T*>(norm.x),
                                 .mean = norm.mean,
                                 .inverse = norm.inverse,
                                 .scale = norm.scale,
                                 .shift = norm.shift,
                                 .d = d};
  float* dscale = norm.dscale;
  float* dshift = norm.dshift;
  SumGroups(queue, channels, term, scratch, [=] CREMA_HOST_DEVICE(int64_t c, SumPair pair) {
    dscale[c] = static_cast<float>(pair.second);
    dshift[c] = static_cast<float>(pair.first);
  });
}

}  // namespace

CudnnNormFusionPasses AskNormFusionPasses(const CudnnConvLayer& layer, bool fused,
                                          CudnnSupportCache* answers, int gpu) {
  CudnnNormFusionPasses does;
  const NormFusion& norm_fusion = layer.norm_fusion;
  const auto can = [&](const CudnnConvSpec& spec) {
    return fused && answers->WhyNot(spec, gpu).empty();
  };
  if (norm_fusion.consumes_factors) {
    does.to_weights = can(layer.ToWeights());
    does.to_input = can(layer.ToInput());
  }
  if (norm_fusion.any()) does.forward = can(layer.Forward(fused));
  return does;
}

CudnnConvMemory::Norm NormMemory(const void* x, const FactorRows& factors, float* gradient,
                                 int64_t channels) {
  return {.x = x,
          .mean = factors[kMeanRow],
          .inverse = factors[kInverseRow],
          .scale = factors[kScaleRow],
          .shift = factors[kShiftRow],
          .dscale = gradient + kScaleGradientRow * channels,
          .dshift = gradient + kShiftGradientRow * channels,
          .equivalents = gradient + kRestRow * channels};
}

size_t FusedSumsScratch(const GroupLayout& channels) {
  return ScratchBytes<SumPair>(GroupSumsScratch(channels));
}

void NormalizeInput(const CudaQueue& queue, DType dtype, const GroupLayout& channels, const void* x,
                    const FactorRows& factors, void* y) {
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    Normalize(queue, channels, static_cast<const T*>(x),
              reinterpret_cast<const T*>(factors[kFactorRow]),
              reinterpret_cast<const T*>(factors[kOffsetRow]), static_cast<T*>(y));
  });
}

void SumOutput(const CudaQueue& queue, DType dtype, const GroupLayout& channels, const void* y,
               void* scratch, float* sums) {
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    SumSquares(queue, channels, static_cast<const T*>(y), static_cast<SumPair*>(scratch), sums);
  });
}

void MaskNormGradient(const CudaQueue& queue, DType dtype, const GroupLayout& channels,
                      const CudnnConvMemory::Norm& norm, void* d, void* scratch) {
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    MaskAndSum(queue, channels, norm, static_cast<T*>(d), static_cast<SumPair*>(scratch));
  });
}

}  // namespace crema
