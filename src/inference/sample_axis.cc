#include "inference/sample_axis.h"

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "graph/infer.h"
#include "inference/model_parts.h"

namespace crema {
namespace {

// Relation of a value to the samples of a batch.
enum class Part {
  kSamples,   // axis 0 counts samples, each from the same sample of the inputs
  kConstant,  // independent of the inputs
  kMixed,     // anything else
};

class Walk {
 public:
  // Infos of one graph for a batch of `small` and one of small + 1.
  Walk(const Graph& graph, const std::vector<LayerInfo>& small, const std::vector<LayerInfo>& large,
       int64_t batch)
      : graph_(graph), small_(small), large_(large), batch_(batch) {}

  bool Run() {
    parts_.assign(graph_.values.size(), Part::kMixed);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const Part part = PartOf(n);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const bool follows = part != Part::kSamples || Follows(n, o);
        parts_[static_cast<size_t>(node.outputs[o])] = follows ? part : Part::kMixed;
      }
    }
    return std::ranges::all_of(graph_.Outputs(), [&](int v) { return Is(v, Part::kSamples); });
  }

 private:
  bool Is(int value, Part part) const { return parts_[static_cast<size_t>(value)] == part; }

  // Returns true if the first dimension of the output equals the batch.
  bool Follows(size_t node, size_t output) const {
    const Shape& a = small_[node].outputs[output].shape;
    const Shape& b = large_[node].outputs[output].shape;
    return a.axes() > 0 && a.axes() == b.axes() && a[0] == batch_ && b[0] == batch_ + 1 &&
           std::ranges::equal(a.dims().subspan(1), b.dims().subspan(1));
  }

  Part PartOf(size_t n) const {
    const std::vector<int>& inputs = graph_.nodes[n].inputs;
    const LayerInfo& info = small_[n];
    const auto constant = [&](int v) { return Is(v, Part::kConstant); };
    if (info.constant || (!inputs.empty() && std::ranges::all_of(inputs, constant))) {
      return Part::kConstant;
    }
    if (info.reach == Reach::kAll) return Part::kMixed;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool shared = i < info.shared_inputs.size() && info.shared_inputs[i];
      if (!Is(inputs[i], shared ? Part::kConstant : Part::kSamples)) return Part::kMixed;
    }
    return Part::kSamples;
  }

  const Graph& graph_;
  const std::vector<LayerInfo>& small_;
  const std::vector<LayerInfo>& large_;
  const int64_t batch_;
  std::vector<Part> parts_;
};

bool SameParameters(const std::vector<LayerInfo>& a, const std::vector<LayerInfo>& b) {
  const auto same = [](const ParameterInfo& x, const ParameterInfo& y) {
    return x.shape == y.shape;
  };
  for (size_t n = 0; n < a.size(); ++n) {
    if (!std::ranges::equal(a[n].parameters, b[n].parameters, same)) return false;
  }
  return true;
}

// Returns false if an input has no batch axis.
bool SetBatch(const std::vector<InputBlob>& inputs, int64_t batch, NetParameter* net) {
  std::vector<Shape> shapes;
  for (const InputBlob& input : inputs) {
    const auto& given = net->layer(input.layer).input_param().shape();
    const BlobShape& shape = given.Get(given.size() == 1 ? 0 : input.top);
    if (shape.dim_size() == 0) return false;
    shapes.push_back(
        Shape(std::span<const int64_t>(shape.dim().data(), static_cast<size_t>(shape.dim_size())))
            .With(0, batch));
  }
  SetInputShapes(inputs, shapes, net);
  return true;
}

}  // namespace

bool WorksBySample(const NetFile& net, const NetState& state, const Registry& registry) {
  constexpr int64_t kBatch = 2;  // 1 could be a broadcast dimension
  NetParameter sized = net.net;
  try {
    const std::vector<InputBlob> inputs = FindInputs(net.net, state);
    std::vector<Problem> ignored;
    if (inputs.empty() || !SetBatch(inputs, kBatch, &sized)) return false;
    const Graph small = BuildGraph(sized, net.source, state, registry, &ignored);
    const std::vector<LayerInfo> small_infos = InferShapes(small, {});
    SetBatch(inputs, kBatch + 1, &sized);
    const Graph large = BuildGraph(sized, net.source, state, registry, &ignored);
    const std::vector<LayerInfo> large_infos = InferShapes(large, {});
    CREMA_CHECK(small.nodes.size() == large.nodes.size());
    return SameParameters(small_infos, large_infos) &&
           Walk(small, small_infos, large_infos, kBatch).Run();
  } catch (const Error&) {
    return false;  // the net accepts only one batch size
  }
}

}  // namespace crema
