#include "onnx/import_sizes.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

// More groups than these are fixed together, without a conversion for each.
constexpr size_t kMostGroups = 8;

bool IsUnknown(const OnnxInput& input, int axis) {
  return !input.has_shape || input.dims[static_cast<size_t>(axis)] < 0;
}

// Axes that are likely to have one size at any run, such as the batch of several inputs.
using Group = std::vector<FixedAxis>;

// Returns the axes whose sizes the file leaves open, or the others.
std::vector<Group> GroupsOf(const OnnxGraph& graph, const std::map<std::string, Shape>& shapes,
                            bool unknown) {
  std::map<std::pair<int, int64_t>, Group> groups;  // by axis and size
  for (const OnnxInput& input : graph.inputs) {
    const Shape& shape = shapes.at(input.name);
    for (int i = 0; i < shape.axes(); ++i) {
      if (IsUnknown(input, i) == unknown)
        groups[{i, shape[i]}].push_back({input.name, i, shape[i]});
    }
  }
  std::vector<Group> list;
  for (auto& [key, group] : groups) list.push_back(std::move(group));
  return list;
}

class SizeTrial {
 public:
  SizeTrial(const std::map<std::string, Shape>& shapes, const std::string& layers,
            const LayersOfShapes& layers_of)
      : shapes_(shapes), layers_(layers), layers_of_(layers_of) {}

  // Returns true if the layers change with the sizes of all axes of the group; also, if `strict`,
  // if there are none for other sizes.
  bool Changes(const Group& group, bool strict = true) const {
    const auto grown = Layers(group, [](int64_t size) { return size + 1; });
    if (grown && *grown != layers_) return true;
    // A batch has no more to show. Other sizes may change nothing by 1, where strides divide them,
    // or fit only as multiples.
    const bool batch = std::ranges::all_of(group, [](const FixedAxis& a) { return a.axis == 0; });
    const bool same = std::ranges::all_of(group, [](const FixedAxis& a) { return a.size == 1; });
    if (grown && (batch || same)) return false;
    const auto doubled = same ? grown : Layers(group, [](int64_t size) { return 2 * size; });
    return doubled ? *doubled != layers_ : strict && !grown;
  }

 private:
  template <typename Size>
  std::optional<std::string> Layers(const Group& group, Size size) const {
    try {
      std::map<std::string, Shape> shapes = shapes_;
      for (const FixedAxis& a : group) {
        Shape& shape = shapes.at(a.input);
        shape = shape.With(a.axis, size(a.size));
      }
      return layers_of_(shapes);
    } catch (const Error&) {
      return std::nullopt;  // too many elements
    }
  }

  const std::map<std::string, Shape>& shapes_;
  const std::string& layers_;
  const LayersOfShapes& layers_of_;
};

Group Joined(const std::vector<Group>& groups) {
  Group all;
  for (const Group& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

// Returns the axes of open sizes that must keep theirs.
Group FixedOf(const std::vector<Group>& groups, const SizeTrial& trial) {
  const Group all = Joined(groups);
  if (all.empty() || !trial.Changes(all)) return {};
  if (groups.size() == 1 || groups.size() > kMostGroups) return all;
  std::vector<Group> fixed, free;
  for (const Group& group : groups) (trial.Changes(group) ? fixed : free).push_back(group);
  const bool together = free.size() > 1 || fixed.empty();
  return together && trial.Changes(Joined(free)) ? all : Joined(fixed);
}

bool ReadsSizes(const OnnxGraph& graph) {
  const std::set<std::string> readers = {"Shape", "Size", "If", "Loop", "Scan"};
  return std::ranges::any_of(
      graph.nodes, [&](const OnnxNode& node) { return readers.contains(node.proto.op_type()); });
}

LayerParameter Guard(const FixedAxis& fixed, int axes, const std::string& bottom,
                     const std::string& name) {
  LayerParameter layer;
  layer.set_name(name);
  layer.set_type("Reshape");
  layer.add_bottom(bottom);
  layer.add_top(name);
  auto* shape = layer.mutable_reshape_param()->mutable_shape();
  for (int i = 0; i < axes; ++i) shape->add_dim(i == fixed.axis ? fixed.size : 0);
  return layer;
}

}  // namespace

bool MayDependOnSizes(const OnnxGraph& graph) {
  return ReadsSizes(graph) || std::ranges::any_of(graph.inputs, [](const OnnxInput& input) {
           return !input.has_shape ||
                  std::ranges::any_of(input.dims, [](int64_t dim) { return dim < 0; });
         });
}

std::vector<FixedAxis> FindFixedAxes(const OnnxGraph& graph,
                                     const std::map<std::string, Shape>& shapes,
                                     const std::string& layers, const LayersOfShapes& layers_of) {
  const SizeTrial trial(shapes, layers, layers_of);
  std::vector<FixedAxis> fixed = FixedOf(GroupsOf(graph, shapes, true), trial);
  if (!ReadsSizes(graph)) return fixed;
  std::vector<Group> batches = GroupsOf(graph, shapes, false);
  std::erase_if(batches, [](const Group& group) { return group[0].axis != 0; });
  if (batches.size() > kMostGroups) batches = {Joined(batches)};
  for (const Group& group : batches) {
    if (trial.Changes(group, false)) fixed.insert(fixed.end(), group.begin(), group.end());
  }
  return fixed;
}

void FixAxes(const std::vector<FixedAxis>& axes, NetParameter* net) {
  UniqueNames names;
  std::map<std::string, int> axes_of;
  int inputs = 0;
  for (const LayerParameter& layer : net->layer()) {
    names.Add(layer.name());
    for (const std::string& top : layer.top()) names.Add(top);
    if (layer.type() != "Input") continue;
    ++inputs;
    axes_of[layer.top(0)] = layer.input_param().shape(0).dim_size();
  }
  std::vector<LayerParameter> guards;
  std::map<std::string, std::string> guarded;  // blobs after the guards, by input
  for (const FixedAxis& fixed : axes) {
    std::string& blob = guarded.emplace(fixed.input, fixed.input).first->second;
    const std::string name =
        names.Add(StrCat(fixed.input, "/axis", fixed.axis, "_is_", fixed.size));
    guards.push_back(Guard(fixed, axes_of.at(fixed.input), blob, name));
    blob = name;
  }
  for (LayerParameter& layer : *net->mutable_layer()) {
    for (std::string& bottom : *layer.mutable_bottom()) {
      const auto found = guarded.find(bottom);
      if (found != guarded.end()) bottom = found->second;
    }
  }
  const int layers = net->layer_size();
  for (LayerParameter& guard : guards) *net->add_layer() = std::move(guard);
  const auto list = net->mutable_layer()->pointer_begin();
  std::rotate(list + inputs, list + layers, net->mutable_layer()->pointer_end());
}

}  // namespace crema
