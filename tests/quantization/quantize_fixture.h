// A net with all layers that have int8 implementations, for tests of quantization.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/memory_format.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "quantization/quantize.h"
#include "support/net.h"

namespace crema::test {

// All layers with int8 implementations, a residual block, and layers without them.
inline const char* const kInt8Net = R"(
layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 dim: 32 dim: 32 } } }
layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'a' convolution_param { num_output: 64
  kernel_size: 5 pad: 2 weight_filler { type: 'msra' } } }
layer { name: 'na' type: 'BatchNorm' bottom: 'a' top: 'a' }
layer { name: 'sa' type: 'Scale' bottom: 'a' top: 'a' scale_param { bias_term: true } }
layer { name: 'ra' type: 'ReLU' bottom: 'a' top: 'a' }
layer { name: 'p' type: 'Pooling' bottom: 'a' top: 'p' pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'b' type: 'Convolution' bottom: 'p' top: 'b' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 bias_term: false weight_filler { type: 'msra' } } }
layer { name: 'rb' type: 'ReLU' bottom: 'b' top: 'b' }
layer { name: 'd' type: 'Convolution' bottom: 'b' top: 'd' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'nd' type: 'BatchNorm' bottom: 'd' top: 'd' }
layer { name: 'sum' type: 'Eltwise' bottom: 'p' bottom: 'd' top: 'sum' }
layer { name: 'rs' type: 'ReLU' bottom: 'sum' top: 'sum' }
layer { name: 'e' type: 'Convolution' bottom: 'sum' top: 'e' convolution_param { num_output: 64
  kernel_size: 1 weight_filler { type: 'msra' } } }
layer { name: 're' type: 'ReLU' bottom: 'e' top: 'e' }
layer { name: 'f' type: 'Convolution' bottom: 'sum' top: 'f' convolution_param { num_output: 32
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'j' type: 'Concat' bottom: 'e' bottom: 'f' top: 'j' }
layer { name: 'drop' type: 'Dropout' bottom: 'j' top: 'j' }
layer { name: 'g' type: 'Convolution' bottom: 'j' top: 'g' convolution_param { num_output: 64
  kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'q' type: 'Pooling' bottom: 'g' top: 'q' pooling_param { pool: AVE
  global_pooling: true } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'q' top: 'ip' inner_product_param { num_output: 80
  weight_filler { type: 'xavier' } } }
)";

inline NetState TestState() {
  NetState state;
  state.set_phase(TEST);
  return state;
}

inline std::shared_ptr<const Plan> PlanOf(const NetParameter& net, PlanOptions options = {}) {
  options.processor.vnni = true;  // so that bytes pay on each processor
  options.backward = false;
  std::vector<Problem> warnings;
  return MakePlan(net, {}, TestState(), TestRegistry(), options, &warnings);
}

// Three batches of different numbers.
inline bool FillBatch(int64_t index, Session& session) {
  if (index >= 3) return false;
  FillInput(&session, "x", static_cast<uint64_t>(index));
  return true;
}

class QuantizeTest : public testing::Test {
 protected:
  QuantizeTest()
      : net_(ParseNet(kInt8Net, "net.prototxt").net), weights_(Weights::Make(*PlanOf(net_), 3)) {}

  QuantizeResult Run(const QuantizeOptions& options = {},
                     const CalibrationInputs& inputs = FillBatch) {
    return QuantizeModel(net_, {}, TestState(), TestRegistry(), weights_, inputs, options);
  }

  std::string Refused(const QuantizeOptions& options, const CalibrationInputs& inputs) {
    try {
      Run(options, inputs);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return {};
  }

  std::vector<float> OutputOf(const NetParameter& net, int threads, int times = 1,
                              bool fixed = true) const {
    Session session(PlanOf(net, {.threads = threads}), weights_, ExecContext(threads, 1));
    if (fixed) session.FixWeights();
    for (int i = 0; i < times; ++i) {
      FillInput(&session, "x", 77);
      session.Forward();
    }
    return ValuesOf(session.Data("ip"));
  }

  static bool HasImplementations() {
    const auto& implementations = TestRegistry().Find("Convolution")->implementations;
    return ChannelBlock() > 0 && std::ranges::find(implementations, "int8",
                                                   &Implementation::name) != implementations.end();
  }

  NetParameter net_;
  std::shared_ptr<const Weights> weights_;
};

inline double RelativeError(const std::vector<float>& right, const std::vector<float>& made) {
  double signal = 0, noise = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    signal += double{right[i]} * double{right[i]};
    noise += (double{right[i]} - double{made[i]}) * (double{right[i]} - double{made[i]});
  }
  return std::sqrt(noise / signal);
}

}  // namespace crema::test
