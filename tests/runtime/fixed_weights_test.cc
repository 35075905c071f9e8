// Session::FixWeights: implementations may cache packed weights, but only of fixed weights.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/net.h"
#include "support/random_nets.h"

namespace crema {
namespace {

using test::FillInput;
using test::PlanText;
using test::ValuesOf;

std::string Recurrent(const std::string& type) {
  return StrCat(R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 8 dim: 16 dim: 32 } } }
layer { name: "cont" type: "Input" top: "cont" input_param { shape { dim: 8 dim: 16 } } }
layer { name: "cell" type: ")",
                type, R"(" bottom: "x" bottom: "cont" top: "y" recurrent_param { num_output: 64
  weight_filler { type: "xavier" } } }
)");
}

std::string Others() {
  return R"(
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 4 dim: 16 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "y"
  inner_product_param { num_output: 48 weight_filler { type: "xavier" } } }
)";
}

// All sequences begin with the first step of the batch.
void Feed(Session* session) {
  FillInput(session, "x", 1);
  const TensorView cont = session->MutableData("cont");
  if (cont.empty()) return;
  const std::span<float> values = cont.span<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = i < 16 ? 0.0F : 1.0F;
}

// Weights that changed since a pass in which they were not fixed yet.
TEST(FixedWeights, AreThoseOfTheTimeWhenTheyWereFixed) {
  for (const std::string& text :
       {Recurrent("RNN"), Recurrent("LSTM"), Recurrent("GRU"), Others()}) {
    const auto plan = PlanText(text, TEST, {.threads = 2, .backward = false});
    const std::shared_ptr<Weights> weights = Weights::Make(*plan, 3);
    const std::shared_ptr<const Weights> shared = weights;
    Session session(plan, shared, ExecContext(2, 3));
    Feed(&session);
    session.Forward();
    for (size_t s = 0; s < plan->parameters.size(); ++s) {
      for (float& weight : weights->blob(s).span<float>()) weight *= -0.5F;
    }
    Session fresh(plan, shared, ExecContext(2, 3));
    for (Session* each : {&session, &fresh}) {
      each->FixWeights();
      Feed(each);
      each->Forward();
    }
    EXPECT_EQ(ValuesOf(session.Data("y")), ValuesOf(fresh.Data("y"))) << text;
  }
}

}  // namespace
}  // namespace crema
