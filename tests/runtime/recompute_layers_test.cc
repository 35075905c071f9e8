// Every sample of every layer type gives the same bits when its layer runs again for backward.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/blob_types.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "plan/memory/recompute.h"
#include "support/layer_case.h"
#include "support/net.h"

namespace crema::test {
namespace {

using Bytes = std::vector<std::byte>;

Bytes BytesOf(const ConstTensorView& view) {
  const auto* begin = static_cast<const std::byte*>(view.raw());
  return view.empty() ? Bytes() : Bytes(begin, begin + view.bytes());
}

void Fill(const Values& values, const TensorView& view) {
  DispatchBlob(view.dtype(), [&]<typename T>(T) {
    const std::span<T> to = view.span<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<T>(values[i]);
  });
}

// Inputs, the layer, and a loss on each output that has axes and holds numbers of the net.
NetParameter NetOf(const LayerCase& of, bool recompute) {
  NetParameter net;
  net.set_force_backward(true);
  for (size_t i = 0; i < of.infer_context().inputs.size(); ++i) {
    LayerParameter* input = net.add_layer();
    input->set_name(StrCat("source", i));
    input->set_type("Input");
    input->add_top(StrCat("in", i));
    const BlobSpec& spec = of.infer_context().inputs[i];
    if (spec.dtype == DType::kU8) {
      input->mutable_pipeline_param()->set_output(PipelineParameter::U8);
    }
    BlobShape* shape = input->mutable_input_param()->add_shape();
    for (int64_t dim : spec.shape.dims()) shape->add_dim(dim);
  }
  *net.add_layer() = MakeParameter(of.type(), of.sample().prototxt, of.sample().inputs.size(),
                                   of.sample().outputs);
  net.mutable_layer(net.layer_size() - 1)->set_recompute(recompute);
  for (size_t o = 0; o < of.info().outputs.size(); ++o) {
    const BlobSpec& spec = of.info().outputs[o];
    if (spec.shape.axes() == 0 || spec.dtype != DType::kF32) continue;
    LayerParameter* loss = net.add_layer();
    loss->set_name(StrCat("loss", o));
    loss->set_type("Reduction");
    loss->add_bottom(StrCat("out", o));
    loss->add_top(StrCat("loss", o));
    loss->add_loss_weight(1);
    loss->mutable_reduction_param()->set_operation(ReductionParameter::SUMSQ);
  }
  return net;
}

struct LayerOutcome {
  int again = 0;  // layers that run again
  std::vector<Bytes> numbers;
};

// Throws what planning throws.
LayerOutcome RunCase(const LayerCase& of, const CaseValues& values, bool recompute) {
  NetState state;
  state.set_phase(of.sample().phase);
  std::vector<Problem> warnings;
  const auto plan =
      MakePlan(NetOf(of, recompute), SourceMap(), state, TestRegistry(), {.threads = 2}, &warnings);
  const std::shared_ptr<Weights> weights = Weights::Make(*plan, 1);
  for (size_t s = 0; s < plan->parameters.size(); ++s) Fill(values.parameters[s], weights->blob(s));
  Session session(plan, weights, ExecContext(2, 1));
  LayerOutcome outcome;
  for (const PlannedLayer& layer : plan->layers) {
    outcome.again += static_cast<int>(layer.runs_again.size());
  }
  for (int pass = 0; pass < 2; ++pass) {
    for (size_t i = 0; i < values.inputs.size(); ++i) {
      Fill(values.inputs[i], session.MutableData(StrCat("in", i)));
    }
    const double loss = session.Forward();
    const auto* begin = reinterpret_cast<const std::byte*>(&loss);
    outcome.numbers.emplace_back(begin, begin + sizeof(loss));
    session.ZeroParameterGradients();
    session.Backward();
    for (size_t i = 0; i < values.inputs.size(); ++i) {
      outcome.numbers.push_back(BytesOf(session.Gradient(StrCat("in", i))));
    }
    for (size_t s = 0; s < plan->parameters.size(); ++s) {
      outcome.numbers.push_back(BytesOf(session.ParameterGradient(s)));
      outcome.numbers.push_back(BytesOf(std::as_const(*weights).blob(s)));
    }
  }
  return outcome;
}

TEST(RecomputeOfEveryLayer, GivesTheSameBits) {
  int again = 0;
  std::set<std::string> refused;
  for (const std::string& name : TestRegistry().Names()) {
    const LayerType& type = *TestRegistry().Find(name);
    for (const LayerSample& sample : type.samples) {
      if (!sample.gradient || sample.stateful || sample.inputs.empty()) continue;
      SCOPED_TRACE(name + " " + sample.name);
      const LayerCase layer_case(type, sample, DType::kF32);
      const CaseValues values = DrawValues(layer_case);
      const LayerOutcome kept = RunCase(layer_case, values, false);
      try {
        const LayerOutcome recomputed = RunCase(layer_case, values, true);
        EXPECT_EQ(recomputed.numbers, kept.numbers);
        again += recomputed.again;
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("cannot run forward a second time"),
                  std::string::npos)
            << error.what();
        refused.insert(name);
      }
    }
  }
  EXPECT_GT(again, 100);
  // Dynamic output shapes, no outputs, a state.
  const std::set<std::string> known = {"Filter", "GRU", "LSTM", "RNN", "Silence"};
  EXPECT_TRUE(std::ranges::includes(known, refused)) << testing::PrintToString(refused);
}

}  // namespace
}  // namespace crema::test
