// Comparisons of verify, on numbers that can be checked by hand.
#include "inference/compare_models.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <limits>

#include "inference/model_bench.h"
#include "inference/segmenter.h"
#include "support/serving_nets.h"

namespace crema {
namespace {

Tensor Of(const Shape& shape, std::initializer_list<float> values) {
  Tensor tensor(shape, DType::kF32);
  std::ranges::copy(values, tensor.view().span<float>().begin());
  return tensor;
}

TEST(CompareModels, Differences) {
  const Tensor a = Of({2, 2}, {1, -4, 2, 2}), b = Of({2, 2}, {1, -4, 2, 5});
  Difference difference{.blob = "x"};
  AddDifference(a.view(), b.view(), &difference);
  EXPECT_EQ(difference.largest, 3);
  EXPECT_EQ(difference.most, 4);
  EXPECT_DOUBLE_EQ(difference.relative(), 3.0 / 5);
  Difference same{.blob = "x"};
  AddDifference(a.view(), a.view(), &same);
  EXPECT_EQ(same.relative(), 0);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Difference broken{.blob = "x"};
  AddDifference(a.view(), Of({2, 2}, {1, nan, 2, 2}).view(), &broken);
  EXPECT_EQ(broken.largest, std::numeric_limits<double>::infinity());
  Difference other{.blob = "x"};
  AddDifference(a.view(), Of({4}, {1, 2, 3, 4}).view(), &other);
  EXPECT_EQ(other.note, "2x2 and 4");
}

TEST(CompareModels, TopOneOfClassesAndOfPixels) {
  Agreement top;
  AddTopOne(Of({2, 3}, {1, 2, 3, 3, 2, 1}).view(), Of({2, 3}, {0, 0, 9, 0, 9, 0}).view(), &top);
  EXPECT_EQ(top.agree, 1);
  EXPECT_EQ(top.of, 2);
  Agreement pixels;
  AddTopOne(Of({1, 2, 1, 3}, {1, 1, 1, 0, 2, 0}).view(),
            Of({1, 2, 1, 3}, {1, 1, 1, 0, 2, 3}).view(), &pixels);
  EXPECT_EQ(pixels.agree, 2);
  EXPECT_EQ(pixels.of, 3);
}

TEST(CompareModels, BoxesMayChangePlaces) {
  const Tensor a = Of({1, 1, 3, 7}, {0, 1, 0.9F, 0,    0,    0.5F, 0.5F,  //
                                     0, 1, 0.8F, 0.5F, 0.5F, 1,    1,     //
                                     0, 2, 0.1F, 0,    0,    1,    1});
  const Tensor b = Of({1, 1, 2, 7}, {0, 1, 0.9F, 0.5F, 0.5F, 1, 0.95F,  //
                                     0, 2, 0.9F, 0, 0, 0.5F, 0.5F});
  Agreement boxes;
  AddBoxes(a.view(), b.view(), 0.6, &boxes);
  EXPECT_EQ(boxes.agree, 1) << "the second of a is the first of b; the other is another class";
  EXPECT_EQ(boxes.of, 2);
}

TEST(CompareModels, LayersOfTheSameModelAreTheSame) {
  const ModelOptions options = ObservableOptions({});
  const auto model = test::ModelOf(test::kSmallNet, options);
  LayerComparison comparison(model, model, options);
  const std::vector<NamedOutput> inputs = RandomInputs(*model, 3, 1);
  comparison.Add(ViewsOf(inputs));
  std::vector<std::string> blobs;
  for (const Difference& difference : comparison.differences()) {
    EXPECT_EQ(difference.note, "") << difference.blob;
    EXPECT_EQ(difference.largest, 0) << difference.blob;
    EXPECT_GT(difference.most, 0) << difference.blob;
    blobs.push_back(difference.blob);
  }
  for (const char* blob : {"conv1", "a", "b", "cat", "pool", "ip", "prob"}) {
    EXPECT_EQ(std::ranges::count(blobs, blob), 1) << blob;
  }
}

TEST(ModelBatches, PartsAreAsTheWhole) {
  const auto model = test::ModelOf(test::kSmallNet);
  ASSERT_TRUE(model->Batches());
  ModelRunner runner(model);
  const std::vector<NamedOutput> inputs = RandomInputs(*model, 7, 1);
  const auto whole = RunOnArrays(*model, &runner, ViewsOf(inputs), 0);
  for (const int64_t batch : {1, 3, 7, 100}) {
    const auto parts = RunOnArrays(*model, &runner, ViewsOf(inputs), batch);
    ASSERT_EQ(parts[0].value.shape(), whole[0].value.shape());
    const auto a = whole[0].value.view().span<float>(), b = parts[0].value.view().span<float>();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6) << batch << " " << i;
  }
}

TEST(ModelBatches, NoSamplesAreRefused) {
  const auto model = test::ModelOf(test::kSmallNet);
  ModelRunner runner(model);
  const Tensor none({0, 3, 12, 12}, DType::kF32);
  const NamedTensor input{"data", none.view()};
  EXPECT_THROW(RunOnArrays(*model, &runner, {&input, 1}, 2), Error);
  EXPECT_THROW(RunOnArrays(*model, &runner, {}, 2), Error);
}

TEST(ModelBench, PercentilesAreValues) {
  const std::vector<double> values = {5, 1, 4, 2, 3};
  EXPECT_EQ(Percentile(values, 0.5), 3);
  EXPECT_EQ(Percentile(values, 0.9), 5);
  EXPECT_EQ(Percentile(values, 0.2), 1);
  EXPECT_EQ(Percentile({7}, 0.99), 7);
}

TEST(ModelBench, WhatARunThrowsIsThrown) {
  const auto model = test::ModelOf(test::kSmallNet);
  const Tensor wrong = Of({1, 2}, {1, 2});
  const NamedTensor input{"data", wrong.view()};
  EXPECT_THROW(BenchModel(model, {&input, 1}, {.instances = 2, .seconds = 0}), Error);
}

// The measured time covers all runs.
TEST(ModelBench, TheTimeHoldsAllRuns) {
  constexpr int kInstances = 4;
  const auto model = test::ModelOf(test::kSmallNet);
  const std::vector<NamedOutput> inputs = RandomInputs(*model, 1, 1);
  for (int i = 0; i < 30; ++i) {
    const BenchResult result =
        BenchModel(model, ViewsOf(inputs), {.instances = kInstances, .warmup = 1, .seconds = 0});
    EXPECT_LE(static_cast<double>(result.runs) / 2 * result.p50, kInstances * result.seconds);
  }
}

// Stacks too large for a second thread.
class LargeStacks {
 public:
  LargeStacks() {
    pthread_attr_t large;
    pthread_getattr_default_np(&before_);
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, kStack);
    pthread_setattr_default_np(&large);
    pthread_attr_destroy(&large);
    getrlimit(RLIMIT_AS, &limit_);
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit tight = limit_;
    tight.rlim_cur = pages * static_cast<size_t>(getpagesize()) + kStack + kStack / 2;
    setrlimit(RLIMIT_AS, &tight);
  }
  ~LargeStacks() {
    setrlimit(RLIMIT_AS, &limit_);
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  LargeStacks(const LargeStacks&) = delete;
  LargeStacks& operator=(const LargeStacks&) = delete;

 private:
  static constexpr size_t kStack = size_t{2} << 30;
  pthread_attr_t before_;
  rlimit limit_;
};

TEST(ModelBench, AThreadThatCannotBeStartedIsAnError) {
#ifndef _OPENMP
  GTEST_SKIP() << "oneDNN has threads of its own here, and ends the process without them";
#endif
  const auto model = test::ModelOf(test::kSmallNet);
  const std::vector<NamedOutput> inputs = RandomInputs(*model, 1, 1);
  const LargeStacks stacks;
  try {
    BenchModel(model, ViewsOf(inputs), {.instances = 3, .seconds = 0});
    FAIL() << "there was room";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("no thread for 2 of 3"), std::string::npos)
        << error.what();
  }
}

TEST(Segmenter, SharesOfClassesThatOccurLargestFirst) {
  const Image image{.channels = 1, .height = 1, .width = 4, .pixels = {0, 2, 2, 1}};
  std::vector<std::pair<int, double>> shares;
  for (const auto& [index, share] : SharesOf(image, 4)) shares.emplace_back(index, share);
  EXPECT_EQ(shares, (std::vector<std::pair<int, double>>{{2, 0.5}, {0, 0.25}, {1, 0.25}}));
}

}  // namespace
}  // namespace crema
