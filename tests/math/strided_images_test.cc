// Outputs and their gradients that are ranges of the images of a larger blob: the same values as in
// dense ones, and nothing is written outside.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/bfloat16.h"
#include "core/memory_format.h"
#include "core/rng.h"
#include "math/blocked_conv.h"
#include "math/blocked_pool.h"
#include "math/blocked_winograd.h"

namespace crema {
namespace {

constexpr float kCanary = 77;

std::vector<float> DrawImages(int64_t count, uint64_t seed) {
  const RandomStream random(seed, HashName("strided"), 0);
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(random.Uniform(i)) - 0.5F;
  }
  return values;
}

// A batch of images of `size` elements, `stride` elements apart, with `before` others before each.
struct Ranges {
  int64_t images, size, before, stride;

  std::vector<float> Spread(const std::vector<float>& dense) const {
    std::vector<float> all(static_cast<size_t>(images * stride), kCanary);
    for (int64_t n = 0; n < images; ++n) {
      std::copy_n(dense.begin() + n * size, size, all.begin() + n * stride + before);
    }
    return all;
  }
};

TEST(StridedImages, Pooling) {
  const int64_t block = ChannelBlock();
  if (block == 0) GTEST_SKIP() << "needs a processor with AVX2 or AVX-512";
  const int64_t batch = 3, blocks = 2;
  const PoolAxis axis{.in = 7, .out = 7, .kernel = 3, .stride = 1, .pad = 1};
  const PoolWindow window{axis, axis};
  const int64_t size = blocks * block * 49;
  const Ranges ranges{batch, size, block * 49, 5 * block * 49};
  const BlockedPoolPlanes apart(batch, blocks, ranges.stride);
  const std::vector<float> x = DrawImages(batch * size, 1), dy = DrawImages(batch * size, 2);
  const std::vector<float> dy_spread = ranges.Spread(dy);
  std::vector<float> y(x.size()), dx(x.size()), dx_strided(x.size());
  std::vector<uint8_t> index(x.size());
  for (const bool average : {false, true}) {
    std::vector<float> to(static_cast<size_t>(batch * ranges.stride), kCanary);
    if (average) {
      BlockedAveragePool(2, window, false, batch * blocks, x.data(), y.data());
      BlockedAveragePool(2, window, false, apart, x.data(), to.data() + ranges.before);
      BlockedAveragePoolBackward(2, window, false, batch * blocks, dy.data(), dx.data(), {});
      BlockedAveragePoolBackward(2, window, false, apart, dy_spread.data() + ranges.before,
                                 dx_strided.data(), {});
    } else {
      BlockedMaxPool(2, window, batch * blocks, x.data(), y.data(), index.data());
      const std::vector<uint8_t> places = index;
      BlockedMaxPool(2, window, apart, x.data(), to.data() + ranges.before, index.data());
      EXPECT_EQ(places, index);
      BlockedMaxPoolBackward(2, window, batch * blocks, index.data(), dy.data(), dx.data(), {});
      BlockedMaxPoolBackward(2, window, apart, index.data(), dy_spread.data() + ranges.before,
                             dx_strided.data(), {});
    }
    EXPECT_EQ(ranges.Spread(y), to);
    EXPECT_EQ(dx, dx_strided);
  }
}

TEST(StridedImages, Winograd) {
  if (!HaveBlockedWinograd()) GTEST_SKIP() << "needs a processor with AVX-512";
  const int64_t batch = 3, channels = 32;
  const ConvWindow window{.axes = 2,
                          .in = {9, 9},
                          .out = {9, 9},
                          .kernel = {3, 3},
                          .stride = {1, 1},
                          .pad = {1, 1},
                          .dilation = {1, 1}};
  const PackedConvShape shape(window, 1, channels, channels);
  const int64_t size = channels * 81;
  const Ranges ranges{batch, size, 16 * 81, 4 * size};
  const std::vector<float> x = DrawImages(batch * size, 1),
                           weight = DrawImages(channels * channels * 9, 2);
  const std::vector<float> residual = DrawImages(batch * size, 3);
  std::vector<float> filters(BlockedWinogradWeightBytes(shape, WinogradPass::kForward) / 4);
  BlockedWinogradWeights(shape, WinogradPass::kForward, 2, weight.data(), nullptr, filters.data());
  std::vector<std::byte> scratch(BlockedWinogradForwardScratch(shape, batch, 2));
  std::vector<float> y(x.size()), to(static_cast<size_t>(batch * ranges.stride), kCanary);
  WinogradEpilogue epilogue{.residual = residual.data(), .relu = {.on = true}};
  BlockedWinogradForward(shape, batch, 2, x.data(), filters.data(), epilogue, y.data(), scratch);
  epilogue.y_stride = ranges.stride;
  BlockedWinogradForward(shape, batch, 2, x.data(), filters.data(), epilogue,
                         to.data() + ranges.before, scratch);
  EXPECT_EQ(ranges.Spread(y), to);
}

#ifdef CREMA_HAVE_ONEDNN

BlockedConvConfig PointwiseOfStride2(int64_t channels, int64_t size, int64_t batch, int threads) {
  const BlockedConvShape::Axis axis{
      .in = size, .out = (size + 1) / 2, .kernel = 1, .stride = 2, .pad = 0, .dilation = 1};
  BlockedConvConfig config;
  config.shape.batch = batch;
  config.shape.in_channels = config.shape.out_channels = channels;
  config.shape.h = config.shape.w = axis;
  config.bfloat16 = config.bias = true;
  config.threads = threads;
  return config;
}

// oneDNN keeps the primitives of a process, those of one image on all threads too, whose scratch is
// larger.
TEST(StridedImages, ConvolutionStaysInItsScratch) {
  if (!HasBFloat16()) GTEST_SKIP() << "needs a processor with AVX512-BF16";
  constexpr int64_t kBatch = 16;
  constexpr int kThreads = 8;
  constexpr auto kGuard = std::byte{0x5A};
  for (const int64_t channels : {16, 64}) {
    for (const int64_t size : {14, 28, 55}) {
      BlockedConv(PointwiseOfStride2(channels, size, 1, kThreads)).Prepare();
      BlockedConvConfig config = PointwiseOfStride2(channels, size, kBatch, kThreads);
      const int64_t image = channels * config.shape.h.out * config.shape.w.out;
      config.y_stride = 2 * image;
      BlockedConv conv(config);
      const std::vector<BFloat16> x(static_cast<size_t>(kBatch * channels * size * size), 1.0F);
      std::vector<BFloat16> y(static_cast<size_t>(kBatch * config.y_stride));
      const std::vector<float> weight = DrawImages(channels * channels, 1),
                               bias = DrawImages(channels, 2);
      const size_t booked = conv.ForwardScratch();
      std::vector<std::byte> memory(booked + (1 << 20), kGuard);
      conv.Forward(x.data(), {.weight = weight.data(), .bias = bias.data()}, nullptr, y.data(),
                   false, std::span(memory).first(booked));
      const auto is_guard = [](std::byte b) { return b == kGuard; };
      EXPECT_TRUE(
          std::all_of(memory.begin() + static_cast<int64_t>(booked), memory.end(), is_guard))
          << channels << " channels of " << size << " x " << size;
    }
  }
}

#endif

}  // namespace
}  // namespace crema
