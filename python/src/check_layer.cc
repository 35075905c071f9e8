// The generic checker of layers (tests/support) for Python.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "arrays.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "declared_layer.h"
#include "format/prototxt.h"
#include "graph/graph.h"
#include "graph/implementation.h"
#include "support/gpu.h"
#include "support/layer_checker.h"
#include "user_code.h"

namespace crema::test {

// The checker asks for these only for implementations of GPUs, which are not checked here.
ExecContext GpuContext(uint64_t seed) { return ExecContext(1, seed); }
Allocator& SharedMemory() { return CpuAllocator(); }

}  // namespace crema::test

namespace crema::python {
namespace {

// Shape, low, high, integer, distinct, kink.
using Bottom = std::tuple<std::vector<int64_t>, double, double, bool, bool, std::optional<double>>;

// A layer type of one class, which must outlive it.
LayerType TypeOf(nb::handle of) {
  LayerType type;
  type.name = nb::cast<std::string>(of.attr("__name__"));
  type.inputs = {.min = 0, .max = Arity::kAny};
  type.outputs = {.min = 0, .max = Arity::kAny};
  type.make = [of](const LayerParameter& param) {
    return CallUser(param.name(), [&] { return MakeDeclaredLayer(param, of); });
  };
  return type;
}

LayerType TypeNamed(const std::string& name) {
  const LayerType* const found = Layers().Find(name);
  if (found == nullptr) {
    Fail(ErrorCode::kNotFound,
         StrCat("there is no layer type '", name, "'", DidYouMean(name, Layers().Names())));
  }
  LayerType type = *found;
  std::erase_if(type.implementations, [](const std::shared_ptr<const Implementation>& one) {
    return one->device == DeviceType::kCuda;
  });
  return type;
}

// Throws what a net with the layer throws before its shapes are known: wrong numbers of bottoms and
// tops, wrong fields.
void RequireLayer(const LayerType& type, const LayerSample& sample, size_t bottoms) {
  std::string text, names;
  for (size_t i = 0; i < bottoms; ++i) {
    text += StrCat("layer { name: 'b", i, "' type: 'Input' top: 'b", i,
                   "' input_param { shape { dim: 1 } } }\n");
    names += StrCat(" bottom: 'b", i, "'");
  }
  for (int i = 0; i < sample.outputs; ++i) names += StrCat(" top: 't", i, "'");
  text +=
      StrCat("layer { name: 'sample' type: '", type.name, "'", names, " ", sample.prototxt, " }");
  NetState state;
  state.set_phase(sample.phase);
  std::vector<Problem> ignored;
  BuildGraph(ParseNet(text, "<text>").net, {}, state, Layers(), &ignored);
}

std::vector<std::string> Check(const nb::object& layer, const std::vector<Bottom>& bottoms,
                               int tops, const std::string& text, int phase, bool gradient) {
  const bool is_named = nb::isinstance<nb::str>(layer);
  LayerType type = is_named ? TypeNamed(nb::cast<std::string>(layer)) : TypeOf(layer);
  LayerSample sample{.name = "check", .prototxt = text, .outputs = tops};
  sample.phase = phase == 0 ? TRAIN : TEST;
  sample.gradient = gradient;
  for (const auto& [shape, low, high, integer, distinct, kink] : bottoms) {
    sample.inputs.push_back({.shape = shape,
                             .low = low,
                             .high = high,
                             .integer = integer,
                             .has_kink = kink.has_value(),
                             .kink = kink.value_or(0),
                             .distinct = distinct});
  }
  type.samples = {sample};
  const GilReleased released;
  if (is_named) RequireLayer(type, sample, bottoms.size());
  return test::CheckLayerSample(type, sample);
}

}  // namespace

void BindCheckLayer(nb::module_& module) {
  module.def("check_layer", &Check,
             nb::sig("def check_layer(layer: object, bottoms: list[tuple[tuple[int, ...], float, "
                     "float, bool, bool, float | None]], tops: int, text: str, phase: int, "
                     "gradient: bool) -> list[str]"),
             "Returns a message for each fault.");
}

}  // namespace crema::python
