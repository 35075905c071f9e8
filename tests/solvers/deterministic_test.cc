// Same seed, same bytes: on one number of threads always, on any with `deterministic`.
#include <gtest/gtest.h>

#include <cstring>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "support/solver_runs.h"

namespace crema {
namespace {

using test::MakeSolver;
using test::OptionsFor;
using test::Recorder;
using test::ValuesOf;

constexpr const char* kLeNet = R"(
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param { shape { dim: 10 dim: 1 dim: 28 dim: 28 } shape { dim: 10 }
    data_filler { type: "gaussian" } data_filler { type: "constant" value: 3 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param { num_output: 20 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "conv2" type: "Convolution" bottom: "pool1" top: "conv2"
  convolution_param { num_output: 50 kernel_size: 5 weight_filler { type: "xavier" } } }
layer { name: "pool2" type: "Pooling" bottom: "conv2" top: "pool2"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool2" top: "ip1"
  inner_product_param { num_output: 500 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
)";

constexpr const char* kNormalised = R"(
layer { name: "data" type: "DummyData" top: "data" top: "label"
  dummy_data_param { shape { dim: 9 dim: 3 dim: 19 dim: 17 } shape { dim: 9 }
    data_filler { type: "gaussian" } data_filler { type: "constant" value: 2 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 16 kernel_size: 3 weight_filler { type: "msra" } } }
layer { name: "bn1" type: "BatchNorm" bottom: "conv1" top: "bn1" }
layer { name: "scale1" type: "Scale" bottom: "bn1" top: "bn1" scale_param { bias_term: true } }
layer { name: "relu1" type: "PReLU" bottom: "bn1" top: "relu1" }
layer { name: "pool1" type: "Pooling" bottom: "relu1" top: "pool1"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 } }
layer { name: "norm1" type: "LRN" bottom: "pool1" top: "norm1" lrn_param { local_size: 5 } }
layer { name: "depthwise" type: "Convolution" bottom: "norm1" top: "depthwise"
  convolution_param { num_output: 16 group: 16 kernel_size: 3 pad: 1
    weight_filler { type: "msra" } } }
layer { name: "within" type: "LRN" bottom: "depthwise" top: "within"
  lrn_param { local_size: 3 norm_region: WITHIN_CHANNEL } }
layer { name: "grouped" type: "Convolution" bottom: "within" top: "grouped"
  convolution_param { num_output: 12 group: 2 kernel_size: 3 stride: 2
    weight_filler { type: "msra" } } }
layer { name: "up" type: "Deconvolution" bottom: "grouped" top: "up"
  convolution_param { num_output: 4 kernel_size: 2 stride: 2 weight_filler { type: "msra" } } }
layer { name: "drop" type: "Dropout" bottom: "up" top: "drop" }
layer { name: "ip" type: "InnerProduct" bottom: "drop" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
)";

std::vector<std::vector<float>> Trained(const std::string& net, int threads, bool deterministic) {
  Recorder recorder;
  SolverOptions options = OptionsFor(&recorder, threads);
  options.deterministic = deterministic;
  const auto solver = MakeSolver(
      "net_param { " + net +
          " } base_lr: 0.01 lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.0005 random_seed: 7 "
          "clip_gradients: 3 ema_decay: 0.9 max_iter: 5 snapshot_after_train: false",
      std::move(options));
  solver->Solve();
  auto values = ValuesOf(solver->weights());
  for (const auto& blob : ValuesOf(*solver->averaged_weights())) values.push_back(blob);
  return values;
}

void ExpectSameBytes(const std::vector<std::vector<float>>& a,
                     const std::vector<std::vector<float>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t s = 0; s < a.size(); ++s) {
    EXPECT_EQ(std::memcmp(a[s].data(), b[s].data(), a[s].size() * sizeof(float)), 0) << s;
  }
}

class Deterministic : public ::testing::TestWithParam<const char*> {};

TEST_P(Deterministic, SameThreadsGiveTheSameBytes) {
  for (int threads : {1, 3}) {
    ExpectSameBytes(Trained(GetParam(), threads, false), Trained(GetParam(), threads, false));
  }
}

TEST_P(Deterministic, AnyNumberOfThreadsGivesTheSameBytes) {
  const auto one = Trained(GetParam(), 1, true);
  for (int threads : {2, 3, 16, 20}) ExpectSameBytes(Trained(GetParam(), threads, true), one);
}

INSTANTIATE_TEST_SUITE_P(Nets, Deterministic, ::testing::Values(kLeNet, kNormalised),
                         [](const auto& test) { return test.index == 0 ? "LeNet" : "Normalised"; });

TEST(ThreadLimit, LimitsThreadsAndNotPieces) {
#ifdef _OPENMP
  int most = 0;
  int pieces = 0;
  WithThreadLimit(2, [&] {
    ParallelFor(16, 16, 1, [&](int64_t, int64_t, int) {
#pragma omp critical
      {
        most = std::max(most, omp_get_num_threads());
        ++pieces;
      }
    });
  });
  EXPECT_LE(most, 2);
  EXPECT_EQ(pieces, 16);
#endif
  EXPECT_THROW(WithThreadLimit(2, [] { throw 1; }), int);
}

TEST(DeterministicRun, RefusesByName) {
  Recorder recorder;
  SolverOptions options = OptionsFor(&recorder);
  options.deterministic = true;
  try {
    MakeSolver(
        "net_param { layer { name: 'cam' type: 'VideoData' top: 'data' video_data_param { "
        "video_type: WEBCAM } } } base_lr: 1 lr_policy: 'fixed' max_iter: 1",
        std::move(options));
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("random_seed is not set"), std::string::npos) << text;
    EXPECT_NE(text.find("layer \"cam\": deterministic: the frames of a camera"), std::string::npos)
        << text;
  }
}

}  // namespace
}  // namespace crema
