// Batch normalisation of blocked or channels-last blobs (core/memory_format.h) whose channels fill
// whole blocks, with an optional
// ReLU after it, in as few passes over memory as possible. Source: Ioffe and Szegedy, "Batch
// Normalization", 2015.
#pragma once

#include <cstdint>

#include "core/bfloat16.h"
#include "math/bias_activation.h"

namespace crema {

// N x C x pixels. Results do not depend on the number of threads.
struct ChannelBlocks {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t pixels = 0;
  bool channels_last = false;
  int64_t Values() const { return batch * pixels; }  // of a channel
  int64_t Count() const { return batch * channels * pixels; }
};

// T below, the type of x, y and their gradients, is float or BFloat16; sums are doubles. Thread
// safety: any, with scratch of its own.

// Returns the doubles of scratch for the sums below.
int64_t ChannelSumsScratch(const ChannelBlocks& blocks);

// Reads x once. The variance divides by the number of values. Sums are of the differences from one
// value of the channel, so that a large mean costs no precision. Requires at least one value.
template <typename T>
void ChannelMoments(int threads, const ChannelBlocks& blocks, const T* x, double* mean,
                    double* variance, double* scratch);

// y = relu((x - center) * factor + shift), one number a channel; y may be x.
template <typename T>
void NormalizeChannels(int threads, const ChannelBlocks& blocks, const T* x, const float* center,
                       const float* factor, const float* shift, FusedRelu relu, T* y);

// Inputs of the backward pass: d is dy, or with a ReLU the part of dy that passes it. The ReLU's
// mask is recomputed from x as in NormalizeChannels: that is faster than reading y, which need not
// be kept.
template <typename T>
struct NormalizedGradsOf {
  const T* x = nullptr;
  const T* dy = nullptr;
  const float* center = nullptr;  // these three by channel
  const float* factor = nullptr;  // read with a ReLU only
  const float* shift = nullptr;   // read with a ReLU only
  FusedRelu relu = {};
};
using NormalizedGrads = NormalizedGradsOf<float>;

// sums = sum of d, products = sum of d * (x - center), by channel.
template <typename T>
void NormalizedSums(int threads, const ChannelBlocks& blocks, const NormalizedGradsOf<T>& grads,
                    double* sums, double* products, double* scratch);

// dx = factor * d - offset - slope * (x - center), by channel; dx may be dy.
template <typename T>
void NormalizedToInput(int threads, const ChannelBlocks& blocks, const NormalizedGradsOf<T>& grads,
                       const float* factor, const float* offset, const float* slope, T* dx);

}  // namespace crema
