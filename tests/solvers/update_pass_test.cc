// The pass that all update rules share: threads, and numbers that are not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "crema.pb.h"
#include "solvers/rules/norms.h"
#include "support/update_call.h"

namespace crema::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <typename T>
std::vector<T> AllBytes(const std::vector<UpdateBlob<T>>& blobs) {
  std::vector<T> all;
  for (const UpdateBlob<T>& blob : blobs) {
    all.insert(all.end(), blob.weights.begin(), blob.weights.end());
    for (const auto& h : blob.history) all.insert(all.end(), h.begin(), h.end());
  }
  return all;
}

// Enough elements for several threads, in blobs whose borders fit no piece.
template <typename T>
std::vector<T> Train(const UpdateRule& rule, int threads) {
  const SolverParameter param;
  std::vector<UpdateBlob<T>> blobs;
  for (size_t count : {100003, 1, 17, 70001, 33}) {
    blobs.push_back(RandomBlob<T>(rule, count, count));
    blobs.back().decay = 0.01;
  }
  for (int64_t iteration = 0; iteration < 3; ++iteration) {
    EXPECT_EQ(Update(rule, param, threads, &blobs, iteration, 0.3), -1);
  }
  return AllBytes(blobs);
}

template <typename T>
void ExpectSameBytes() {
  for (const UpdateRule& rule : UpdateRules()) {
    const std::vector<T> one = Train<T>(rule, 1);
    for (int threads : {2, 3, 5}) {
      const std::vector<T> several = Train<T>(rule, threads);
      EXPECT_EQ(std::memcmp(one.data(), several.data(), one.size() * sizeof(T)), 0)
          << rule.name << " on " << threads << " threads";
    }
  }
}

TEST(UpdatePass, AnyNumberOfThreadsGivesTheSameBytes) {
  ExpectSameBytes<float>();
  ExpectSameBytes<double>();
}

TEST(UpdatePass, NamesTheFirstBlobThatIsNotFinite) {
  for (const UpdateRule& rule : UpdateRules()) {
    for (int threads : {1, 3}) {
      for (float bad : {kInfinity, -kInfinity, kNaN}) {
        std::vector<UpdateBlob<float>> blobs;
        for (size_t count : {40000, 65000, 30, 50000}) {
          blobs.push_back(RandomBlob<float>(rule, count, count));
        }
        blobs[1].gradient[64998] = bad;
        blobs[3].gradient[0] = bad;
        EXPECT_EQ(Update(rule, {}, threads, &blobs, 0), 1) << rule.name << " " << bad;
      }
    }
  }
}

TEST(UpdatePass, AHistoryThatIsNotFiniteIsNoticedThoughTheWeightsAre) {
  // The square overflows, and the step is g / infinity = 0.
  for (const char* name : {"AdaGrad", "RMSProp", "Adam", "AdamW", "AdaDelta", "LAMB"}) {
    const UpdateRule& rule = *FindUpdateRule(name);
    std::vector<UpdateBlob<float>> blobs = {RandomBlob<float>(rule, 5, 1)};
    blobs[0].gradient[2] = 1e30F;
    EXPECT_EQ(Update(rule, {}, 1, &blobs, 0), 0) << name;
  }
}

TEST(UpdatePass, LargeFiniteNumbersAreNotRefused) {
  const UpdateRule& sgd = *FindUpdateRule("SGD");
  std::vector<UpdateBlob<float>> blobs = {RandomBlob<float>(sgd, 9, 1)};
  blobs[0].weights[3] = std::numeric_limits<float>::max();
  blobs[0].weights[4] = std::numeric_limits<float>::denorm_min();
  blobs[0].gradient.assign(9, 0);
  EXPECT_EQ(Update(sgd, {}, 1, &blobs, 0), -1);
  EXPECT_EQ(blobs[0].weights[3], std::numeric_limits<float>::max());
}

TEST(UpdatePass, ClippingByValueBoundsInfinityAndKeepsNaN) {
  const UpdateRule& sgd = *FindUpdateRule("SGD");
  std::vector<UpdateBlob<float>> blobs = {RandomBlob<float>(sgd, 3, 1)};
  const float before = blobs[0].weights[0];
  blobs[0].gradient = {kInfinity, 0, 0};
  EXPECT_EQ(Update(sgd, {}, 1, &blobs, 0, 1, 0.5), -1);
  EXPECT_FLOAT_EQ(blobs[0].weights[0], before - 0.1F * 0.5F);
  blobs[0].gradient = {kNaN, 0, 0};
  EXPECT_EQ(Update(sgd, {}, 1, &blobs, 1, 1, 0.5), 0);
}

TEST(UpdatePass, ANetWithNothingToUpdateIsFine) {
  std::vector<UpdateBlob<float>> none;
  for (const UpdateRule& rule : UpdateRules()) {
    EXPECT_EQ(Update(rule, {}, 2, &none, 0), -1) << rule.name;
  }
}

TEST(Norms, AreOfAllBlobsAndIndependentOfThreads) {
  std::vector<float> a = RandomValues<float>(100001, 1);
  std::vector<float> b = RandomValues<float>(77, 2);
  double sum = 0;
  for (const auto* values : {&a, &b}) {
    for (float x : *values) sum += double{x} * x;
  }
  const std::vector<ConstTensorView> views = {{a.data(), {100001}, DType::kF32},
                                              {b.data(), {77}, DType::kF32}};
  const double norm = NormOf(1, views);
  EXPECT_NEAR(norm, std::sqrt(sum), 1e-9 * norm);
  for (int threads : {2, 3, 7}) EXPECT_EQ(NormOf(threads, views), norm);
}

TEST(Norms, SumsHoldWhatFloatSquaresWouldNot) {
  const std::vector<float> values(100, 1e25F);
  EXPECT_NEAR(SumOfSquares(std::span<const float>(values)) / 1e52, 1, 1e-6);
}

}  // namespace
}  // namespace crema::test
