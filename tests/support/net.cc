#include "support/net.h"

#include <gtest/gtest.h>

#include "core/rng.h"
#include "crema.pb.h"
#include "support/gpu.h"

namespace crema::test {
namespace {

NetState StateOf(const NetFile& file, Phase phase) {
  NetState state = file.net.state();
  state.set_phase(phase);
  return state;
}

}  // namespace

const Registry& TestRegistry() { return LayersWithGpuImplementations(); }

std::shared_ptr<const Plan> PlanText(const std::string& text, Phase phase, PlanOptions options,
                                     const Registry& registry) {
  const NetFile file = ParseNet(text, "net.prototxt");
  std::vector<Problem> warnings;
  return MakePlan(file.net, file.source, StateOf(file, phase), registry, options, &warnings);
}

std::string PlanError(const std::string& text, Phase phase) {
  try {
    PlanText(text, phase);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

Graph GraphOf(const std::string& text) {
  const NetFile file = ParseNet(text, "net.prototxt");
  std::vector<Problem> warnings;
  return BuildGraph(file.net, file.source, StateOf(file, TRAIN), TestRegistry(), &warnings);
}

void ExpectSameNet(const Graph& graph, const std::string& after) {
  NetParameter got = ToNetParameter(graph);
  NetParameter expected = ParseNet(after, "after.prototxt").net;
  for (NetParameter* net : {&got, &expected}) {
    for (LayerParameter& layer : *net->mutable_layer()) layer.clear_phase();
  }
  EXPECT_EQ(PrintText(got), PrintText(expected));
}

std::string PlanWarnings(const std::string& text, Phase phase) {
  const NetFile file = ParseNet(text, "net.prototxt");
  std::vector<Problem> warnings;
  MakePlan(file.net, file.source, StateOf(file, phase), TestRegistry(), {}, &warnings);
  std::string lines;
  for (const Problem& warning : warnings) lines += ToString(warning) + "\n";
  return lines;
}

void FillInput(Session* session, const std::string& blob, uint64_t seed) {
  const RandomStream stream(seed, HashName(blob));
  const TensorView view = session->MutableData(blob);
  CREMA_CHECK(view.dtype() == DType::kF32);
  std::vector<float> values(static_cast<size_t>(view.count()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(2 * stream.Uniform(i) - 1);
  }
  session->Write(view, values.data());
}

std::vector<float> ValuesOf(const ConstTensorView& view) {
  const std::span<const float> span = view.span<float>();
  return {span.begin(), span.end()};
}

}  // namespace crema::test
