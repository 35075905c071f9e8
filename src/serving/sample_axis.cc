#include "serving/sample_axis.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "graph/infer.h"
#include "serving/model_inputs.h"

namespace crema {
namespace {

// What a value is to the samples of a batch.
enum class Part {
  kSamples,   // one behind the other on axis 0, each of one sample of the inputs
  kConstant,  // the same whatever the inputs are
  kMixed,     // anything else
};

// Work on each entry of axis 0 for itself, whatever their parameters are.
bool IsAlwaysBySample(std::string_view type) {
  static const std::set<std::string_view> types = {"AbsVal",        "Axpy",        "BNLL",
                                                   "Cast",          "Clip",        "ELU",
                                                   "Eltwise",       "Embed",       "Exp",
                                                   "GELU",          "GroupNorm",   "HSigmoid",
                                                   "HSwish",        "HardSigmoid", "HardSwish",
                                                   "InstanceNorm",  "Interp",      "LRN",
                                                   "Log",           "MVN",         "Mish",
                                                   "Normalize",     "Pooling",     "Pooling3D",
                                                   "PixelsToFloat", "Power",       "PReLU",
                                                   "ReLU",          "ReLU6",       "Reorg",
                                                   "Resize",        "SPP",         "ShuffleChannel",
                                                   "Sigmoid",       "Silence",     "Split",
                                                   "Swish",         "TanH",        "Threshold",
                                                   "UnPooling",     "Upsample",    "Reorder"};
  return types.contains(type);
}

// The axis from which on (or along which) such a layer mixes elements; nothing: it is of another
// kind.
std::optional<int64_t> MixedAxis(const LayerParameter& p) {
  const std::string& type = p.type();
  if (type == "Softmax") return p.softmax_param().axis();
  if (type == "InnerProduct") return p.inner_product_param().axis();
  if (type == "Flatten") return p.flatten_param().axis();
  if (type == "Reduction") return p.reduction_param().axis();
  if (type == "Crop") return p.crop_param().axis();
  if (type == "Tile") return p.tile_param().axis();
  if (type == "Pad") return p.pad_param().axis();
  if (type == "LayerNorm") return p.layer_norm_param().axis();
  if (type == "RMSNorm") return p.rms_norm_param().axis();
  if (type == "CosineSimilarity") return p.cosine_similarity_param().axis();
  if (type == "PositionEmbedding") return p.position_embedding_param().axis();
  if (type == "ArgMax") return p.argmax_param().has_axis() ? p.argmax_param().axis() : 1;
  static const std::set<std::string_view> convolutions = {
      "Convolution",          "Convolution3D",        "Deconvolution",
      "ConvolutionDepthwise", "DepthwiseConvolution", "Im2col"};
  if (convolutions.contains(type)) return p.convolution_param().axis();
  if (type == "Concat") {
    const ConcatParameter& concat = p.concat_param();
    return concat.has_concat_dim() ? int64_t{concat.concat_dim()} : concat.axis();
  }
  if (type == "Slice") {
    const SliceParameter& slice = p.slice_param();
    return slice.has_slice_dim() ? int64_t{slice.slice_dim()} : slice.axis();
  }
  return std::nullopt;
}

// Or those of the batch; the three dialects of BN are told apart as in layers/normalization/bn.cc.
bool UsesStoredStatistics(const LayerParameter& p) {
  if (p.type() == "BatchNorm") {
    if (p.phase() == TRAIN) return p.batch_norm_param().use_global_stats();
    return !p.batch_norm_param().has_use_global_stats() || p.batch_norm_param().use_global_stats();
  }
  const BNParameter& bn = p.bn_param();
  if (p.phase() == TRAIN || bn.axis() != 1) return false;
  if (bn.has_bn_mode()) return bn.bn_mode() == BNParameter::INFERENCE;
  if (bn.has_var_eps() || bn.has_moving_average() || bn.has_decay()) return bn.moving_average();
  return bn.has_momentum() || bn.has_eps() || bn.has_frozen() || bn.has_slope_filler() ||
         bn.has_bias_filler();
}

class Walk {
 public:
  // Infos of one graph for batches of `small` and of one more.
  Walk(const Graph& graph, const std::vector<LayerInfo>& small, const std::vector<LayerInfo>& large,
       int64_t batch)
      : graph_(graph), small_(small), large_(large), batch_(batch) {}

  bool Run() {
    parts_.assign(graph_.values.size(), Part::kMixed);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      const Part part = PartOf(node);
      for (size_t o = 0; o < node.outputs.size(); ++o) {
        const bool follows = part != Part::kSamples || Follows(n, o);
        parts_[static_cast<size_t>(node.outputs[o])] = follows ? part : Part::kMixed;
      }
    }
    return std::ranges::all_of(graph_.Outputs(), [&](int v) { return Is(v, Part::kSamples); });
  }

 private:
  bool Is(int value, Part part) const { return parts_[static_cast<size_t>(value)] == part; }

  // Whether the first extent of that output is the batch.
  bool Follows(size_t node, size_t output) const {
    const Shape& a = small_[node].outputs[output].shape;
    const Shape& b = large_[node].outputs[output].shape;
    return a.axes() > 0 && a.axes() == b.axes() && a[0] == batch_ && b[0] == batch_ + 1 &&
           std::ranges::equal(a.dims().subspan(1), b.dims().subspan(1));
  }

  const Shape& ShapeOf(int value) const {
    const Value& v = graph_.values[static_cast<size_t>(value)];
    return small_[static_cast<size_t>(v.producer)].outputs[static_cast<size_t>(v.output)].shape;
  }

  Part PartOf(const Node& node) const {
    const LayerParameter& p = node.layer->param();
    if (p.type() == "Input") return Part::kSamples;
    if (p.type() == "PriorBox") return Part::kConstant;  // looks at extents only
    const auto constant = [&](int v) { return Is(v, Part::kConstant); };
    if (p.type() == "Parameter" ||
        (!node.inputs.empty() && std::ranges::all_of(node.inputs, constant))) {
      return Part::kConstant;
    }
    if (node.inputs.empty() || !Is(node.inputs[0], Part::kSamples)) return Part::kMixed;
    return KeepsSamplesApart(node) ? Part::kSamples : Part::kMixed;
  }

  // Requires: input 0 has samples.
  bool KeepsSamplesApart(const Node& node) const {
    const LayerParameter& p = node.layer->param();
    const bool all = std::ranges::all_of(node.inputs, [&](int v) { return Is(v, Part::kSamples); });
    const Shape& first = ShapeOf(node.inputs[0]);
    if (p.type() == "Scale" || p.type() == "Bias") return ScalesBySample(node);
    if (p.type() == "MatMul") return all && MultipliesBySample(node);
    if (!all) return false;
    if (p.type() == "BatchNorm" || p.type() == "BN") return UsesStoredStatistics(p);
    if (p.type() == "Reshape") return true;  // row-major, so that Follows says all
    if (p.type() == "Attention") return node.inputs.size() <= 3;
    if (p.type() == "Permute") {
      const auto& order = p.permute_param().order();
      return order.empty() || order.Get(0) == 0;
    }
    const std::optional<int64_t> axis = MixedAxis(p);
    if (axis) return first.CanonicalAxis(*axis) >= 1;
    if (p.type() == "Dropout") return p.phase() == TEST;  // what is dropped goes by the place
    return IsAlwaysBySample(p.type());
  }

  bool ScalesBySample(const Node& node) const {
    const LayerParameter& p = node.layer->param();
    const int64_t axis = p.type() == "Scale" ? p.scale_param().axis() : p.bias_param().axis();
    const bool from_first = ShapeOf(node.inputs[0]).CanonicalAxis(axis) == 0;
    if (node.inputs.size() == 1) return !from_first;
    return Is(node.inputs[1], from_first ? Part::kSamples : Part::kConstant);
  }

  // The first axes count matrices.
  bool MultipliesBySample(const Node& node) const {
    const int a = ShapeOf(node.inputs[0]).axes();
    return a >= 3 && ShapeOf(node.inputs[1]).axes() == a;
  }

  const Graph& graph_;
  const std::vector<LayerInfo>& small_;
  const std::vector<LayerInfo>& large_;
  const int64_t batch_;
  std::vector<Part> parts_;
};

bool SameLearned(const std::vector<LayerInfo>& a, const std::vector<LayerInfo>& b) {
  const auto same = [](const LearnedBlob& x, const LearnedBlob& y) { return x.shape == y.shape; };
  for (size_t n = 0; n < a.size(); ++n) {
    if (!std::ranges::equal(a[n].learned, b[n].learned, same)) return false;
  }
  return true;
}

// False where an input has no axis for it.
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
  constexpr int64_t kBatch = 2;  // 1 could be an extent that is repeated
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
    return SameLearned(small_infos, large_infos) &&
           Walk(small, small_infos, large_infos, kBatch).Run();
  } catch (const Error&) {
    return false;  // this net takes one batch size only
  }
}

}  // namespace crema
