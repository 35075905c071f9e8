// mixup and cutmix of a batch in memory.
#include "data/batches/batch_mix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace crema {
namespace {

constexpr int64_t kImages = 3;
constexpr int64_t kSide = 8;
constexpr int64_t kMixClasses = 4;

// Sample i is the value 100 (i + 1) everywhere, of class i.
struct LabelledImages {
  Tensor images{Shape{kImages, 2, kSide, kSide}, DType::kF32};
  Tensor labels{Shape{kImages, kMixClasses}, DType::kF32};

  LabelledImages() {
    for (int64_t i = 0; i < images.view().count(); ++i) {
      images.view().data<float>()[i] = static_cast<float>(100 * (1 + i / (2 * kSide * kSide)));
    }
    for (int64_t i = 0; i < kImages; ++i) labels.view().data<float>()[i * kMixClasses + i] = 1;
  }
};

LabelledImages MixOf(const BatchMix& mix, uint64_t position) {
  const LabelledImages from;
  LabelledImages to;
  const ConstTensorView inputs[] = {from.images.view(), from.labels.view()};
  const TensorView outputs[] = {to.images.view(), to.labels.view()};
  mix.Copy(inputs, position, outputs);
  return to;
}

double MeanShare(double alpha, double* spread) {
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 20000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    Draws draws(RandomStream(1, 2, i));
    const double share = DrawShare(alpha, draws);
    EXPECT_TRUE(share >= 0 && share <= 1);
    sum += share;
    squares += share * share;
  }
  const double mean = sum / kDraws;
  *spread = squares / kDraws - mean * mean;
  return mean;
}

TEST(BatchMix, SharesHaveTheMomentsOfBeta) {
  for (const double alpha : {0.001, 0.2, 1.0, 4.0, 100.0}) {
    double variance = 0;
    EXPECT_NEAR(MeanShare(alpha, &variance), 0.5, 0.012) << alpha;
    const double expected = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(variance, expected, 0.04 * expected) << alpha;
  }
}

TEST(BatchMix, MixupBlendsPixelsAndLabelsByOneShare) {
  const BatchMix mix({.mixup = 1, .cutmix = 0, .seed = 5, .layer_id = 6});
  std::vector<double> shares;
  for (uint64_t position = 0; position < 30; position += kImages) {
    const double share = mix.DrawFor(position, kSide, kSide).share;
    shares.push_back(share);
    const LabelledImages mixed = MixOf(mix, position);
    const LabelledImages plain;
    for (int64_t i = 0; i < kImages; ++i) {
      const int64_t other = (i + kImages - 1) % kImages;
      const double value =
          100 * (share * static_cast<double>(i + 1) + (1 - share) * static_cast<double>(other + 1));
      for (int64_t k = 0; k < 2 * kSide * kSide; ++k) {
        ASSERT_NEAR(mixed.images.view().data<float>()[i * 2 * kSide * kSide + k], value, 1e-3);
      }
      const float* label = mixed.labels.view().data<float>() + i * kMixClasses;
      EXPECT_NEAR(label[i], share, 1e-6);
      EXPECT_NEAR(label[other], 1 - share, 1e-6);
      EXPECT_NEAR(label[0] + label[1] + label[2] + label[3], 1, 1e-6);
    }
  }
  EXPECT_NE(shares[0], shares[1]);
  EXPECT_EQ(mix.DrawFor(3, kSide, kSide).share, shares[1]);  // of the position alone
}

TEST(BatchMix, CutmixSharesAreThoseOfThePixels) {
  const BatchMix mix({.mixup = 0, .cutmix = 1, .seed = 5, .layer_id = 6});
  bool some = false;
  for (uint64_t position = 0; position < 60; position += kImages) {
    const LabelledImages mixed = MixOf(mix, position);
    for (int64_t i = 0; i < kImages; ++i) {
      const int64_t other = (i + kImages - 1) % kImages;
      int64_t own_pixels = 0;
      for (int64_t k = 0; k < 2 * kSide * kSide; ++k) {
        const float value = mixed.images.view().data<float>()[i * 2 * kSide * kSide + k];
        ASSERT_TRUE(value == 100 * static_cast<float>(i + 1) ||
                    value == 100 * static_cast<float>(other + 1));
        own_pixels += value == 100 * static_cast<float>(i + 1);
      }
      const double share = static_cast<double>(own_pixels) / (2 * kSide * kSide);
      some = some || (share > 0.1 && share < 0.9);
      const float* label = mixed.labels.view().data<float>() + i * kMixClasses;
      EXPECT_NEAR(label[i], share, 1e-6);
      EXPECT_NEAR(label[other], 1 - share, 1e-6);
    }
  }
  EXPECT_TRUE(some);
}

TEST(BatchMix, WithBothEachBatchTakesOne) {
  const BatchMix mix({.mixup = 0.2, .cutmix = 1, .seed = 5, .layer_id = 6});
  int cuts = 0;
  for (uint64_t i = 0; i < 1000; ++i) cuts += mix.DrawFor(i, 10, 10).cuts;
  EXPECT_NEAR(cuts, 500, 60);
}

}  // namespace
}  // namespace crema
