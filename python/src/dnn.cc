// The C++ half of crema.dnn (python/crema/dnn.py).
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "arrays.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/prototxt.h"
#include "graph/graph.h"
#include "inference/deploy_net.h"
#include "inference/model.h"
#include "inference/model_parts.h"
#include "log.h"
#include "plan/plan.h"
#include "python_layer.h"
#include "runtime/weights.h"

namespace crema::python {
namespace {

using FloatArray = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using PixelArray = nb::ndarray<nb::ro, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// A deploy net and its parameters, from which models are made that end at any of its layers. Thread
// safety: any number of threads; a parameter is set while no model of the net runs.
class DnnNet {
 public:
  // Throws kInvalidArgument for a training net, and if the weights do not fit. Layers that the file
  // lacks are errors of MakeModel.
  DnnNet(NetFile file, const std::string& weights);

  const Graph& graph() const { return graph_; }
  const std::vector<InputBlob>& inputs() const { return inputs_; }
  const Plan& plan() const { return *plan_; }

  // Returns a model with these values of the graph as outputs, and their names in it. Throws
  // kInvalidArgument if a layer that they need lacks its weights.
  std::pair<std::shared_ptr<const Model>, std::vector<std::string>> MakeModel(
      const std::vector<size_t>& values) const;
  // Plans the net, without optimizations, for the shapes of its inputs.
  std::shared_ptr<const Plan> PlanFor(std::span<const Shape> shapes) const;

  // The parameters of a node of the graph.
  std::vector<TensorView> ParametersOf(size_t node) const;
  void SetParameter(size_t node, size_t index, const FloatArray& values);

 private:
  const PlannedLayer& Planned(size_t node) const;
  void RequireWeights(const NetParameter& net) const;

  NetFile file_;
  NetState state_;
  Graph graph_;
  std::vector<InputBlob> inputs_;
  std::shared_ptr<const Plan> plan_;  // has a slot for each parameter
  std::shared_ptr<Weights> weights_;
  std::set<std::string> unset_;  // layers without weights
};

DnnNet::DnnNet(NetFile file, const std::string& weights)
    : file_(std::move(file)), state_(InferenceState(file_.net)) {
  RefuseTrainingNet(file_, state_);
  for (const Problem& warning : file_.warnings) Log().Write(Severity::kWarning, ToString(warning));
  std::vector<Problem> ignored;  // planning reports them again
  graph_ = BuildGraph(file_.net, file_.source, state_, Layers(), &ignored);
  inputs_ = FindInputs(file_.net, state_);
  plan_ = PlanFor({});
  weights_ = Weights::MakeToLoad(*plan_, 1);
  WeightsFiles files{.missing = MissingLayers::kKeep};
  if (!weights.empty()) files.paths.push_back(weights);
  const LoadReport report = LoadFiles(files, *plan_, weights_.get(), &Log());
  unset_.insert(report.at_fillers.begin(), report.at_fillers.end());
  if (!weights.empty()) return;
  for (const PlannedLayer& layer : plan_->layers) {
    if (!layer.parameters.empty()) unset_.insert(layer.name());
  }
}

std::shared_ptr<const Plan> DnnNet::PlanFor(std::span<const Shape> shapes) const {
  NetParameter sized = file_.net;
  if (!shapes.empty()) {
    if (shapes.size() != inputs_.size()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the net has ", inputs_.size(), " inputs, not ", shapes.size()));
    }
    SetInputShapes(inputs_, shapes, &sized);
  }
  PlanOptions options;
  options.backward = false;
  options.optimize = false;
  std::vector<Problem> ignored;
  return MakePlan(sized, file_.source, state_, Layers(), options, &ignored);
}

void DnnNet::RequireWeights(const NetParameter& net) const {
  std::vector<Problem> problems;
  for (const LayerParameter& layer : net.layer()) {
    if (!unset_.contains(layer.name())) continue;
    problems.push_back({ErrorCode::kInvalidArgument,
                        {.layer = layer.name()},
                        "has no weights: the weights file lacks this layer, or none was given"});
  }
  if (!problems.empty()) throw Error(std::move(problems));
}

std::pair<std::shared_ptr<const Model>, std::vector<std::string>> DnnNet::MakeModel(
    const std::vector<size_t>& values) const {
  for (const size_t v : values) (void)graph_.values.at(v);  // throws for a value that is not there
  const NetParameter whole = ToNetParameter(graph_);
  NetFile marked;
  marked.net.set_name(whole.name());
  if (file_.net.has_precision()) marked.net.set_precision(file_.net.precision());
  LayerParameter others;  // reads blobs that no layer reads, so that they are not outputs
  others.set_name("others");
  others.set_type("Silence");
  std::vector<std::string> names(values.size());
  for (int n = 0; n < whole.layer_size(); ++n) {
    *marked.net.add_layer() = whole.layer(n);
    for (const int v : graph_.nodes[static_cast<size_t>(n)].outputs) {
      const Value& value = graph_.values[static_cast<size_t>(v)];
      const auto wanted = std::ranges::find(values, static_cast<size_t>(v));
      if (wanted == values.end()) {
        if (value.readers.empty()) others.add_bottom(value.name);
        continue;
      }
      std::string& name = names[static_cast<size_t>(wanted - values.begin())];
      name = value.name;
      if (value.readers.empty()) continue;
      name += StrCat("/output", v);
      LayerParameter* output = marked.net.add_layer();
      output->set_name(name);
      output->set_type("Split");
      output->add_bottom(value.name);
      output->add_top(name);
    }
  }
  if (others.bottom_size() > 0) *marked.net.add_layer() = others;
  NetFile cut;
  cut.net = DeployNet(marked, state_, Layers());
  RequireWeights(cut.net);
  ModelOptions options;
  options.threads = AvailableProcessors();
  return {Model::MakeSharing(cut, *weights_, {}, options, Layers(), Log()), std::move(names)};
}

const PlannedLayer& DnnNet::Planned(size_t node) const {
  const std::string& name = graph_.nodes.at(node).name();
  return *std::ranges::find(plan_->layers, name, &PlannedLayer::name);
}

std::vector<TensorView> DnnNet::ParametersOf(size_t node) const {
  std::vector<TensorView> views;
  for (const int slot : Planned(node).parameters) {
    views.push_back(weights_->blob(static_cast<size_t>(slot)));
  }
  return views;
}

void DnnNet::SetParameter(size_t node, size_t index, const FloatArray& values) {
  const TensorView view = ParametersOf(node).at(index);
  const std::string& name = graph_.nodes[node].name();
  if (view.count() != static_cast<int64_t>(values.size())) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("parameter ", index, " has ", view.count(), " values, not ", values.size()),
         {.layer = name});
  }
  std::memcpy(view.raw(), values.data(), view.bytes());
  unset_.erase(name);
}

// Positions and weights of bilinear interpolation along one axis, as cv2.resize has them.
struct Taps {
  std::vector<int64_t> first, second;
  std::vector<float> weight;  // of the second
};

// With `at_border`, a position beyond the border has the weights 1 and 0; else the border's element
// has both weights, which rounds otherwise. `rounded`: positions are floats.
Taps TapsOf(int64_t from, int to, double scale, bool at_border, bool rounded) {
  Taps taps;
  for (int i = 0; i < to; ++i) {
    double position = std::clamp((i + 0.5) * scale - 0.5, -1.0, static_cast<double>(from));
    if (rounded) position = static_cast<float>(position);
    const auto first = static_cast<int64_t>(std::floor(position));
    const int64_t last = from - 1;
    const bool beyond = at_border && (first < 0 || first >= last);
    taps.first.push_back(std::clamp<int64_t>(first, 0, last));
    taps.second.push_back(std::clamp<int64_t>(beyond ? first : first + 1, 0, last));
    taps.weight.push_back(beyond ? 0 : static_cast<float>(position - static_cast<double>(first)));
  }
  return taps;
}

// Bytes are interpolated in fixed point with 11 fractional bits, floats in floating point.
constexpr int kBits = 11;
int WeightOf(float weight, uint8_t) {
  return static_cast<int>(std::lrint(weight * static_cast<float>(1 << kBits)));
}
float WeightOf(float weight, float) { return weight; }

uint8_t Between(int above, int below, int first, int second) {
  const int sum = ((first * (above >> 4)) >> 16) + ((second * (below >> 4)) >> 16);
  return static_cast<uint8_t>((sum + 2) >> 2);
}
float Between(float above, float below, float first, float second) {
  return above * first + below * second;
}

template <typename T>
void ResizeRows(const T* in, int64_t width, int64_t channels, const Taps& columns, const Taps& rows,
                T* out) {
  using Sum = decltype(WeightOf(0, T()));
  const size_t across = columns.first.size() * static_cast<size_t>(channels);
  std::vector<Sum> lines[2] = {std::vector<Sum>(across), std::vector<Sum>(across)};
  int64_t held[2] = {-1, -1};  // the rows of the image that the lines have
  std::vector<std::pair<Sum, Sum>> weights;
  for (const float w : columns.weight) weights.emplace_back(WeightOf(1 - w, T()), WeightOf(w, T()));
  const auto line_of = [&](int64_t row, int64_t other) -> const Sum* {
    const int k = held[0] == row || (held[1] != row && held[1] == other) ? 0 : 1;
    if (std::exchange(held[k], row) == row) return lines[k].data();
    const T* pixels = in + row * width * channels;
    Sum* sums = lines[k].data();
    for (size_t x = 0; x < weights.size(); ++x) {
      const T* a = pixels + columns.first[x] * channels;
      const T* b = pixels + columns.second[x] * channels;
      for (int64_t c = 0; c < channels; ++c) {
        *sums++ =
            static_cast<Sum>(a[c]) * weights[x].first + static_cast<Sum>(b[c]) * weights[x].second;
      }
    }
    return lines[k].data();
  };
  for (size_t y = 0; y < rows.first.size(); ++y) {
    const Sum first = WeightOf(1 - rows.weight[y], T());
    const Sum second = WeightOf(rows.weight[y], T());
    const Sum* above = line_of(rows.first[y], rows.second[y]);
    const Sum* below = line_of(rows.second[y], rows.first[y]);
    for (size_t i = 0; i < across; ++i) *out++ = Between(above[i], below[i], first, second);
  }
}

// Resizes height x width x channels of uint8 or float32, with the bits of cv2.resize for uint8.
// `scale_y` and `scale_x` are the distance of two output pixels in the image.
nb::object Resize(const PixelArray& image, int height, int width, double scale_y, double scale_x) {
  const bool bytes = image.dtype() == nb::dtype<uint8_t>();
  if (!bytes && image.dtype() != nb::dtype<float>()) {
    Fail(ErrorCode::kInvalidArgument, "the image must be an array of uint8 or float32");
  }
  const Shape from = {static_cast<int64_t>(image.shape(0)), static_cast<int64_t>(image.shape(1)),
                      static_cast<int64_t>(image.shape(2))};
  if (from.count() == 0 || height < 1 || width < 1 || !(scale_y > 0) || !(scale_x > 0)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("an image of ", ToString(from), " cannot be resized to ", height, "x", width));
  }
  auto out =
      std::make_shared<Tensor>(Shape{height, width, from[2]}, bytes ? DType::kU8 : DType::kF32);
  {
    const GilReleased released;
    const Apart apart;  // a layer may call this while its net is planned
    const Taps x = TapsOf(from[1], width, scale_x, true, bytes);
    const Taps y = TapsOf(from[0], height, scale_y, false, bytes);
    if (bytes) {
      ResizeRows(static_cast<const uint8_t*>(image.data()), from[1], from[2], x, y,
                 out->view().data<uint8_t>());
    } else {
      ResizeRows(static_cast<const float*>(image.data()), from[1], from[2], x, y,
                 out->view().data<float>());
    }
  }
  return ArrayOf({out->view(), out});
}

nb::tuple SizesOf(const std::vector<int>& numbers) {
  nb::list list;
  for (const int number : numbers) list.append(number);
  return nb::tuple(list);
}

nb::list LayersOf(const DnnNet& net) {
  nb::list layers;
  for (const Node& node : net.graph().nodes) {
    layers.append(
        nb::make_tuple(node.name(), node.type->name, SizesOf(node.inputs), SizesOf(node.outputs)));
  }
  return layers;
}

std::vector<std::string> InputsOf(const DnnNet& net) {
  std::vector<std::string> names;
  for (const InputBlob& input : net.inputs()) names.push_back(input.name);
  return names;
}

// Returns the shape of each blob, by name, and the multiply-adds of all layers.
nb::tuple ShapesFor(const DnnNet& net, const std::vector<std::vector<int64_t>>& inputs) {
  std::vector<Shape> shapes;
  for (const std::vector<int64_t>& sizes : inputs) {
    shapes.emplace_back(std::span<const int64_t>(sizes));
  }
  std::shared_ptr<const Plan> plan;
  {
    const GilReleased released;
    const Apart apart;  // a layer may call this while its net is planned
    plan = net.PlanFor(shapes);
  }
  nb::dict by_name;
  for (const PlannedValue& value : plan->values) {
    by_name[value.name.c_str()] = TupleOf(value.spec.shape);
  }
  int64_t macs = 0;
  for (const PlannedLayer& layer : plan->layers) macs += layer.info.macs;
  return nb::make_tuple(by_name, macs);
}

nb::list ParametersOf(const std::shared_ptr<DnnNet>& net, size_t layer) {
  nb::list arrays;
  for (const TensorView& view : net->ParametersOf(layer)) arrays.append(ArrayOf({view, net}));
  return arrays;
}

nb::tuple MakeModel(const DnnNet& net, const std::vector<size_t>& values) {
  std::pair<std::shared_ptr<const Model>, std::vector<std::string>> made;
  {
    const GilReleased released;
    const Apart apart;  // a layer may call this while its net is planned
    made = net.MakeModel(values);
  }
  return nb::make_tuple(ObjectOf(std::move(made.first)), nb::cast(made.second));
}

}  // namespace

void BindDnn(nb::module_& module) {
  nb::class_<DnnNet>(module, "DnnNet", "A deploy net, for crema.dnn.")
      .def_static(
          "open",
          [](const std::string& path, const std::string& weights) {
            const GilReleased released;
            const Apart apart;  // a layer may call this while its net is planned
            return std::make_shared<DnnNet>(ReadNet(path), weights);
          },
          nb::arg("path"), nb::arg("weights"))
      .def_static(
          "parse",
          [](const std::string& text, const std::string& weights) {
            const GilReleased released;
            const Apart apart;  // a layer may call this while its net is planned
            return std::make_shared<DnnNet>(ParseNet(text, "<buffer>"), weights);
          },
          nb::arg("text"), nb::arg("weights"))
      .def_prop_ro("inputs", &InputsOf)
      .def_prop_ro(
          "layers", &LayersOf,
          nb::sig("def layers(self) -> list[tuple[str, str, tuple[int, ...], tuple[int, ...]]]"),
          "(name, type, values that it reads, values that it makes) of each layer.")
      .def_prop_ro("value_names",
                   [](const DnnNet& net) {
                     std::vector<std::string> names;
                     for (const Value& value : net.graph().values) names.push_back(value.name);
                     return names;
                   })
      .def("model", &MakeModel, nb::arg("values"),
           nb::sig("def model(self, values: list[int]) -> tuple[Model, list[str]]"),
           "Returns a model with these values as outputs, and their names in it.")
      .def("shapes", &ShapesFor, nb::arg("inputs"),
           nb::sig("def shapes(self, inputs: list[tuple[int, ...]]) -> "
                   "tuple[dict[str, tuple[int, ...]], int]"),
           "Returns the shape of each blob, and the multiply-adds of all layers.")
      .def("parameters", &ParametersOf, nb::arg("layer"),
           nb::sig("def parameters(self, layer: int) -> list[numpy.typing.NDArray[typing.Any]]"))
      .def("set_parameter", &DnnNet::SetParameter, nb::arg("layer"), nb::arg("index"),
           nb::arg("values"))
      .def("describe", [](const DnnNet& net) { return DescribePlan(net.plan()); });
  module.def("resize", &Resize, nb::arg("image"), nb::arg("height"), nb::arg("width"),
             nb::arg("scale_y"), nb::arg("scale_x"),
             nb::sig("def resize(image: numpy.typing.NDArray[typing.Any], height: int, width: int, "
                     "scale_y: float, scale_x: float) -> numpy.typing.NDArray[typing.Any]"));
}

}  // namespace crema::python
