// Layers whose outputs have another number of rows each time, and layers that keep statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"

namespace crema {
namespace {

using test::FillInput;
using test::ValuesOf;

// Keeps the rows that begin with a positive number.
class KeepPositive final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.backward_reads_input = {true};
    info.dynamic_outputs = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& shape = args.inputs[0].shape();
    const float* x = args.inputs[0].data<float>();
    float* y = args.outputs[0].data<float>();
    int64_t kept = 0;
    for (int64_t row = 0; row < shape[0]; ++row) {
      const float* from = x + row * shape.count(1);
      if (from[0] > 0) std::copy(from, from + shape.count(1), y + kept++ * shape.count(1));
    }
    args.output_shapes[0] = shape.With(0, kept);
  }

  void Backward(const BackwardArgs& args) const override {
    const Shape& shape = args.inputs[0].shape();
    const float* x = args.inputs[0].data<float>();
    const float* dy = args.output_grads[0].data<float>();
    float* dx = args.input_grads[0].data<float>();
    int64_t kept = 0;
    for (int64_t row = 0; row < shape[0]; ++row) {
      const bool keep = x[row * shape.count(1)] > 0;
      for (int64_t i = 0; i < shape.count(1); ++i) {
        dx[row * shape.count(1) + i] = keep ? dy[kept * shape.count(1) + i] : 0.0F;
      }
      if (keep) ++kept;
    }
    EXPECT_EQ(args.output_grads[0].shape()[0], kept);
  }
};

// Adds the sum of its input to a parameter; the output is the input plus that parameter.
class Summing final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.parameters = {{.role = "sum", .shape = {1}, .statistic = true}};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const float before = args.parameters[0].data<float>()[0];
    float sum = before;
    for (int64_t i = 0; i < args.inputs[0].count(); ++i) {
      args.outputs[0].data<float>()[i] = args.inputs[0].data<float>()[i] + before;
      sum += args.inputs[0].data<float>()[i];
    }
    if (!args.statistics[0].empty()) args.statistics[0].data<float>()[0] = sum;
  }

  void Backward(const BackwardArgs& args) const override {
    const auto dy = args.output_grads[0].span<float>();
    std::ranges::copy(dy, args.input_grads[0].data<float>());
    EXPECT_TRUE(args.parameter_grads[0].empty()) << "a statistic has no gradient";
  }
};

template <typename T>
void Add(Registry* registry, const std::string& name) {
  LayerType type;
  type.name = name;
  type.make = [](const LayerParameter& p) { return std::make_unique<const T>(p); };
  registry->Add(std::move(type));
}

const Registry& Layers() {
  static const Registry registry = [] {
    Registry made = BuiltinRegistry();
    Add<KeepPositive>(&made, "KeepPositive");
    Add<Summing>(&made, "Summing");
    return made;
  }();
  return registry;
}

std::shared_ptr<const Plan> PlanDynamic(const std::string& text) {
  const NetFile file = ParseNet(text, "net.prototxt");
  NetState state = file.net.state();
  state.set_phase(TRAIN);
  std::vector<Problem> warnings;
  return MakePlan(file.net, file.source, state, Layers(), {}, &warnings);
}

std::string FilterNet(int64_t rows, bool filter) {
  return StrCat("force_backward: true\n",
                "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: ", rows,
                " dim: 3 } } }\n",
                filter
                    ? "layer { name: \"keep\" type: \"KeepPositive\" bottom: \"x\" top: \"kept\" "
                      "}\n"
                    : "layer { name: \"keep\" type: \"Power\" bottom: \"x\" top: \"kept\" }\n",
                R"(
layer { name: "ip" type: "InnerProduct" bottom: "kept" top: "ip"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "tanh" type: "TanH" bottom: "ip" top: "y" }
layer { name: "loss" type: "Reduction" bottom: "y" top: "loss" loss_weight: 1
  reduction_param { operation: SUMSQ } }
)");
}

TEST(DynamicOutputs, AreAPlanOfTheImplementationsThatAreLeft) {
  const auto plan = PlanDynamic(FilterNet(4, true));
  Session session(plan, Weights::Make(*plan, 5), ExecContext(1));
  for (const std::vector<float>& signs : std::vector<std::vector<float>>{
           {1, -1, 1, -1}, {1, 1, 1, 1}, {-1, -1, -1, 1}, {-1, -1, -1, -1}, {1, -1, -1, 1}}) {
    std::vector<float> rows, all;
    for (size_t i = 0; i < 12; ++i) {
      all.push_back((i % 3 == 0 ? signs[i / 3] : 1.0F) * (0.1F + 0.07F * static_cast<float>(i)));
      if (signs[i / 3] > 0) rows.push_back(all.back());
    }
    const auto kept = static_cast<int64_t>(rows.size()) / 3;
    std::ranges::copy(all, session.MutableData("x").span<float>().begin());
    const double loss = session.Forward();
    session.ZeroParameterGradients();
    session.Backward();
    EXPECT_EQ(session.Data("kept").shape(), Shape({kept, 3}));
    EXPECT_EQ(session.Data("y").shape(), Shape({kept, 4}));

    const auto fresh_plan = PlanDynamic(FilterNet(kept, false));
    Session fresh(fresh_plan, Weights::Make(*fresh_plan, 5), ExecContext(1));
    std::ranges::copy(rows, fresh.MutableData("x").span<float>().begin());
    EXPECT_EQ(loss, fresh.Forward());
    fresh.ZeroParameterGradients();
    fresh.Backward();
    for (size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(ValuesOf(session.ParameterGradient(s)), ValuesOf(fresh.ParameterGradient(s)));
    }
    const std::vector<float> gradient = ValuesOf(session.Gradient("x"));
    const std::vector<float> expected = ValuesOf(fresh.Gradient("x"));
    for (size_t row = 0, from = 0; row < 4; ++row) {
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(gradient[row * 3 + i], signs[row] > 0 ? expected[from * 3 + i] : 0.0F);
      }
      if (signs[row] > 0) ++from;
    }
  }
}

TEST(DynamicOutputs, FollowAReshapedInput) {
  const auto plan = PlanDynamic(FilterNet(4, true));
  Session session(plan, Weights::Make(*plan, 5), ExecContext(1));
  session.Reshape("x", Shape{2, 3});
  std::ranges::copy(std::vector<float>{-1, 0, 0, 1, 0, 0},
                    session.MutableData("x").span<float>().begin());
  session.Forward();
  EXPECT_EQ(session.Data("kept").shape(), Shape({1, 3}));
  session.Reshape("x", Shape{4, 3});
  std::ranges::fill(session.MutableData("x").span<float>(), 1.0F);
  session.Forward();
  EXPECT_EQ(session.Data("kept").shape(), Shape({4, 3}));
}

const char* kSumming =
    "force_backward: true\n"
    "layer { name: \"x\" type: \"Input\" top: \"x\" input_param { shape { dim: 3 } } }\n"
    "layer { name: \"s\" type: \"Summing\" bottom: \"x\" top: \"y\" }\n"
    "layer { name: \"loss\" type: \"Reduction\" bottom: \"y\" top: \"loss\" loss_weight: 1 }\n";

// The loss of the second pass is 3 + 3 * the statistic after the first.
float SumAfterTwoPasses(Session* session, const Weights& weights, double loss) {
  for (int pass = 0; pass < 2; ++pass) {
    std::ranges::fill(session->MutableData("x").span<float>(), 1.0F);
    const double got = session->Forward();
    EXPECT_EQ(got, pass == 0 ? 3 : loss);
    session->Backward();
  }
  return weights.blob(0).data<float>()[0];
}

TEST(Statistics, AreUpdatedWhereTheWeightsMayChange) {
  const auto plan = PlanDynamic(kSumming);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 1);
  Session session(plan, weights, ExecContext(1));
  EXPECT_EQ(SumAfterTwoPasses(&session, *weights, 12), 6);
  EXPECT_TRUE(session.ParameterGradient(0).empty());
}

TEST(Statistics, StayWhereTheWeightsAreConst) {
  const auto plan = PlanDynamic(kSumming);
  const std::shared_ptr<const Weights> weights = Weights::Make(*plan, 1);
  Session session(plan, weights, ExecContext(1));
  EXPECT_EQ(SumAfterTwoPasses(&session, *weights, 3), 0);
}

}  // namespace
}  // namespace crema
