// Sums over the channels of blocked and channels-last blobs against loops in double precision.
#include "math/blocked_batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "core/memory_format.h"
#include "core/rng.h"
#include "core/strings.h"

namespace crema {
namespace {

std::vector<float> Draw(int64_t count, uint64_t seed, double offset) {
  const RandomStream random(seed, HashName("blocked_batch_norm"));
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(offset + random.Uniform(i) * 2 - 1);
  }
  return values;
}

// The channel of element i.
size_t ChannelOf(const ChannelBlocks& b, size_t i) {
  if (b.channels_last) return i % static_cast<size_t>(b.channels);
  const auto block = static_cast<size_t>(ChannelBlock());
  const auto plane = i / block / static_cast<size_t>(b.pixels);
  return plane * block % static_cast<size_t>(b.channels) + i % block;
}

class BlockedBatchNorm : public testing::TestWithParam<ChannelBlocks> {
 protected:
  void SetUp() override {
    if (ChannelBlock() == 0) GTEST_SKIP() << "this processor has no blocks";
  }
};

TEST_P(BlockedBatchNorm, MomentsOfLargeMeansKeepTheirDigits) {
  const ChannelBlocks b = GetParam();
  for (double offset : {0.0, 1000.0}) {
    const std::vector<float> x = Draw(b.Count(), 1, offset);
    std::vector<double> mean(size_t(b.channels)), variance(mean), sum(mean), square(mean);
    for (size_t i = 0; i < x.size(); ++i) sum[ChannelOf(b, i)] += x[i];
    for (double& s : sum) s /= static_cast<double>(b.Values());
    for (size_t i = 0; i < x.size(); ++i) {
      square[ChannelOf(b, i)] += std::pow(x[i] - sum[ChannelOf(b, i)], 2);
    }
    std::vector<double> scratch(size_t(ChannelSumsScratch(b)));
    for (int threads : {1, 3}) {
      ChannelMoments(threads, b, x.data(), mean.data(), variance.data(), scratch.data());
      for (size_t c = 0; c < mean.size(); ++c) {
        EXPECT_NEAR(mean[c], sum[c], 1e-6) << c;
        EXPECT_NEAR(variance[c], square[c] / static_cast<double>(b.Values()), 1e-6) << c;
      }
    }
  }
}

TEST_P(BlockedBatchNorm, NormalisesAndComesBack) {
  const ChannelBlocks b = GetParam();
  const std::vector<float> x = Draw(b.Count(), 2, 0), dy = Draw(b.Count(), 3, 0);
  const std::vector<float> center = Draw(b.channels, 4, 0), factor = Draw(b.channels, 5, 2);
  const std::vector<float> shift = Draw(b.channels, 6, 0), slope = Draw(b.channels, 7, 0);
  for (const FusedRelu relu : {FusedRelu{}, FusedRelu{true, 0}, FusedRelu{true, 0.25F}}) {
    std::vector<float> y(x.size());
    NormalizeChannels(2, b, x.data(), center.data(), factor.data(), shift.data(), relu, y.data());
    std::vector<double> sums(size_t(b.channels)), products(sums);
    std::vector<double> scratch(size_t(ChannelSumsScratch(b)));
    const NormalizedGrads grads{x.data(),      dy.data(),    center.data(),
                                factor.data(), shift.data(), relu};
    NormalizedSums(2, b, grads, sums.data(), products.data(), scratch.data());
    std::vector<float> dx(x.size());
    NormalizedToInput(3, b, grads, factor.data(), shift.data(), slope.data(), dx.data());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t c = ChannelOf(b, i);
      const double from = double{x[i]} - center[c];
      double value = from * factor[c] + shift[c];
      double d = dy[i];
      if (relu.on && y[i] <= 0) {
        value *= relu.slope;
        d *= relu.slope;
      }
      ASSERT_NEAR(y[i], value, 1e-5) << i;
      ASSERT_NEAR(dx[i], factor[c] * d - shift[c] - slope[c] * from, 1e-5) << i;
      sums[c] -= d;
      products[c] -= d * from;
    }
    for (size_t c = 0; c < sums.size(); ++c) {
      EXPECT_NEAR(sums[c], 0, 1e-4);
      EXPECT_NEAR(products[c], 0, 1e-4);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, BlockedBatchNorm,
                         testing::Values(ChannelBlocks{1, 16, 1}, ChannelBlocks{3, 32, 7},
                                         ChannelBlocks{2, 64, 130}, ChannelBlocks{5, 16, 64},
                                         ChannelBlocks{3, 32, 7, true},
                                         ChannelBlocks{2, 64, 130, true}),
                         [](const auto& sizes) {
                           return StrCat(sizes.param.batch, "x", sizes.param.channels, "x",
                                         sizes.param.pixels,
                                         sizes.param.channels_last ? "last" : "");
                         });

}  // namespace
}  // namespace crema
