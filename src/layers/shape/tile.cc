// Tile: repeats a blob `tiles` times along an axis. dx = the sum of the gradients of the copies.
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "layers/shape/mover.h"

namespace crema {
namespace {

class Tile final : public MovingLayer {
 public:
  explicit Tile(const LayerParameter& param)
      : MovingLayer(param), tiles_(param.tile_param().tiles()) {
    if (tiles_ < 1) {
      FailField(*this, "tile_param.tiles",
                param.tile_param().has_tiles()
                    ? StrCat("tiles must be above 0, but it is ", tiles_)
                    : std::string("tiles is missing; say how often the blob is repeated"));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const int axis = Axis(shape);
    LayerInfo info;
    info.outputs = {{shape.With(axis, shape[axis] * tiles_), context.inputs[0].dtype}};
    info.reach = ReachFromAxis(axis);
    info.moves_only = true;
    info.view = tiles_ == 1;
    return info;
  }

  void MoveForward(const Mover& mover, const ForwardArgs& args) const override {
    const Shape& shape = args.inputs[0].shape();
    const int axis = Axis(shape);
    const int64_t row = shape.count(axis);
    StridedBlock block;
    block.Add(shape.count(0, axis), row, row * tiles_);
    block.Add(tiles_, 0, row);
    block.Add(row, 1, 1);
    mover.Copy(block, args.inputs[0], args.outputs[0]);
  }

  void MoveBackward(const Mover& mover, const BackwardArgs& args) const override {
    const TensorView& dx = args.input_grads[0];
    mover.SumTiles(dx.shape().count(Axis(dx.shape())), tiles_, args.output_grads[0], dx);
  }

 private:
  int Axis(const Shape& shape) const {
    return LayerAxis(*this, shape, param().tile_param().axis(), "tile_param.axis");
  }

  const int64_t tiles_;
};

}  // namespace

void RegisterTile(Registry& registry) {
  LayerType type;
  type.name = "Tile";
  type.category = "shape";
  type.summary = "Repeats a blob along an axis.";
  type.formula = "y = [x, x, ...] along axis, `tiles` times";
  type.input_docs = {"x: any shape with the axis"};
  type.output_docs = {"y: the axis is `tiles` times as long"};
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
      {.name = "empty_batch", .prototxt = "tile_param { tiles: 2 }", .inputs = {{.shape = {0, 3}}}},
      {.name = "empty_axis", .prototxt = "tile_param { tiles: 2 }", .inputs = {{.shape = {3, 0}}}},
  };
  type.bad_samples = {
      {"", {{2, 3}}, "tiles is missing"},
      {"tile_param { tiles: 0 }", {{2, 3}}, "it is 0"},
      {"tile_param { tiles: -1 }", {{2, 3}}, "it is -1"},
      {"tile_param { tiles: 2 axis: 2 }", {{2, 3}}, "axis 2 is outside"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
