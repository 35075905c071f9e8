// Tile: repeats a blob along an axis, `tiles` times, or along each axis, as often as `repeats`
// says. dx = the sum of the gradients of the copies.
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "layers/shape/mover.h"

namespace crema {
namespace {

class Tile final : public RepeatingLayer {
 public:
  explicit Tile(const LayerParameter& param) : RepeatingLayer(param) {
    const TileParameter& tile = param.tile_param();
    if (tile.repeats_size() > 0) {
      CheckRepeats(tile);
    } else if (tile.tiles() < 1) {
      FailField(*this, "tile_param.tiles",
                tile.has_tiles()
                    ? StrCat("tiles must be above 0, but it is ", tile.tiles())
                    : std::string("tiles is missing; say how often the blob is repeated"));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const std::vector<int64_t> repeats = Repeats(shape);
    std::vector<int64_t> sizes(shape.dims().begin(), shape.dims().end());
    LayerInfo info;
    info.view = true;
    info.reach = Reach::kSample;
    for (size_t a = 0; a < sizes.size(); ++a) {
      sizes[a] *= repeats[a];
      if (repeats[a] == 1) continue;
      info.view = false;
      if (a == 0) info.reach = Reach::kAll;
    }
    info.outputs = {{Shape(std::span<const int64_t>(sizes)), context.inputs[0].dtype}};
    info.moves_only = true;
    return info;
  }

 private:
  void CheckRepeats(const TileParameter& tile) const {
    if (tile.has_tiles() || tile.has_axis()) {
      FailField(*this, tile.has_tiles() ? "tile_param.tiles" : "tile_param.axis",
                "repeats replaces axis and tiles; remove these, or repeats");
    }
    for (const uint32_t repeats : tile.repeats()) {
      if (repeats == 0) FailField(*this, "tile_param.repeats", "repeats must be above 0");
    }
  }

  // Returns one number for each axis.
  std::vector<int64_t> Repeats(const Shape& shape) const {
    const TileParameter& tile = param().tile_param();
    std::vector<int64_t> repeats(tile.repeats().begin(), tile.repeats().end());
    if (repeats.empty()) {
      repeats.assign(static_cast<size_t>(shape.axes()), 1);
      const int axis = LayerAxis(*this, shape, tile.axis(), "tile_param.axis");
      repeats[static_cast<size_t>(axis)] = tile.tiles();
    }
    if (repeats.size() != static_cast<size_t>(shape.axes())) {
      FailField(*this, "tile_param.repeats",
                StrCat("there are ", repeats.size(), " repeats for ", shape.axes(), " axes of ",
                       ToString(shape), "; give one for each"));
    }
    return repeats;
  }
};

}  // namespace

void RegisterTile(Registry& registry) {
  LayerType type;
  type.name = "Tile";
  type.category = "shape";
  type.summary = "Repeats a blob along an axis, or along several.";
  type.formula = "y = [x, x, ...] along axis, `tiles` times; or along each axis, as `repeats` says";
  type.input_docs = {"x: any shape with the axis"};
  type.output_docs = {
      "y: the axis is `tiles` times as long, or each axis as many times as `repeats` says"};
  type.param_fields = {"tile_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Tile>(p); };
  const SampleInput input{.shape = {2, 3, 4}};
  type.samples = {
      {.name = "channels", .prototxt = "tile_param { axis: 1 tiles: 3 }", .inputs = {input}},
      {.name = "default_axis", .prototxt = "tile_param { tiles: 2 }", .inputs = {input}},
      {.name = "batch", .prototxt = "tile_param { axis: 0 tiles: 2 }", .inputs = {input}},
      {.name = "last", .prototxt = "tile_param { axis: -1 tiles: 5 }", .inputs = {input}},
      {.name = "once", .prototxt = "tile_param { tiles: 1 }", .inputs = {input}},
      {.name = "large", .prototxt = "tile_param { tiles: 3 }", .inputs = {{.shape = {2, 9001}}}},
      {.name = "repeats",
       .prototxt = "tile_param { repeats: 1 repeats: 2 repeats: 3 }",
       .inputs = {input}},
      {.name = "repeats_samples",
       .prototxt = "tile_param { repeats: 2 repeats: 1 repeats: 1 repeats: 3 }",
       .inputs = {{.shape = {2, 3, 4, 1}}}},
      {.name = "repeats_outer",
       .prototxt = "tile_param { repeats: 1 repeats: 3 repeats: 1 }",
       .inputs = {{.shape = {2, 1, 1100}}}},
      {.name = "repeats_large",
       .prototxt = "tile_param { repeats: 3 repeats: 40 }",
       .inputs = {{.shape = {2, 301}}}},
      {.name = "empty_batch", .prototxt = "tile_param { tiles: 2 }", .inputs = {{.shape = {0, 3}}}},
      {.name = "empty_axis", .prototxt = "tile_param { tiles: 2 }", .inputs = {{.shape = {3, 0}}}},
  };
  type.bad_samples = {
      {"", {{2, 3}}, "tiles is missing"},
      {"tile_param { tiles: 0 }", {{2, 3}}, "it is 0"},
      {"tile_param { tiles: -1 }", {{2, 3}}, "it is -1"},
      {"tile_param { tiles: 2 axis: 2 }", {{2, 3}}, "axis 2 is outside"},
      {"tile_param { repeats: 2 }", {{2, 3}}, "there are 1 repeats for 2 axes of 2x3"},
      {"tile_param { repeats: 2 repeats: 0 }", {{2, 3}}, "repeats must be above 0"},
      {"tile_param { repeats: 2 repeats: 2 tiles: 2 }", {{2, 3}}, "replaces axis and tiles"},
      {"tile_param { repeats: 2 repeats: 2 axis: 1 }", {{2, 3}}, "replaces axis and tiles"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
