// Windows that reach far beyond the data are legal; sizes that no real net has must neither
// overflow, nor exhaust the machine's memory, nor run forever.
#include <gtest/gtest.h>

#include <cmath>

#include "support/net.h"

namespace crema {
namespace {

// Trains one step on a net with this layer between an InnerProduct and a sum.
void RunOnce(const std::string& layer, const std::string& shape = "dim: 1 dim: 1 dim: 2 dim: 2") {
  const auto plan = test::PlanText(
      "force_backward: true\n"
      "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { " +
      shape + " } } }\n" + layer +
      "layer { name: \"s\" type: \"Reduction\" bottom: \"y\" top: \"s\" "
      "loss_weight: 1 }\n");
  Session session(plan, Weights::Make(*plan, 1), ExecContext(1));
  test::FillInput(&session, "x", 1);
  const double loss = session.Forward();
  session.Backward();
  EXPECT_TRUE(std::isfinite(loss));
  for (float gradient : test::ValuesOf(session.Gradient("x"))) EXPECT_TRUE(std::isfinite(gradient));
}

TEST(FarWindows, ConvolutionWithHugeDilationAndPad) {
  RunOnce(
      "layer { name: \"c\" type: \"Convolution\" bottom: \"x\" top: \"y\" convolution_param { "
      "num_output: 1 kernel_size: 2 dilation: 4294967295 pad: 2147483648 stride: 2 } }\n",
      "dim: 1 dim: 1 dim: 1 dim: 1");
}

TEST(FarWindows, ConvolutionWithHugeStride) {
  RunOnce(
      "layer { name: \"c\" type: \"Convolution\" bottom: \"x\" top: \"y\" convolution_param { "
      "num_output: 1 kernel_size: 1 pad: 30000 stride: 30000 } }\n",
      "dim: 1 dim: 1 dim: 1 dim: 1");
}

TEST(FarWindows, PoolingWithHugeKernel) {
  for (const char* method : {"MAX", "AVE"}) {
    RunOnce(
        std::string("layer { name: \"p\" type: \"Pooling\" bottom: \"x\" top: \"y\" pooling_param "
                    "{ pool: ") +
        method + " kernel_h: 2 kernel_w: 2200000000 stride_h: 2 stride_w: 2300000000 } }\n");
  }
}

TEST(FarWindows, LrnWithHugeWindow) {
  for (const char* region : {"ACROSS_CHANNELS", "WITHIN_CHANNEL"}) {
    RunOnce(std::string("layer { name: \"n\" type: \"LRN\" bottom: \"x\" top: \"y\" lrn_param { "
                        "local_size: 4294967295 norm_region: ") +
            region + " } }\n");
  }
}

}  // namespace
}  // namespace crema
