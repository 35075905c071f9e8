// ShuffleChannel: transposes channels, as a matrix of group x (channels / group), so that the next
// grouped convolution reads channels of every group.
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/shape/mover.h"

namespace crema {
namespace {

class ShuffleChannel final : public ElementMove {
 public:
  explicit ShuffleChannel(const LayerParameter& param)
      : ElementMove(param),
        group_(param.shuffle_channel_param().has_group() ? param.shuffle_channel_param().group()
                                                         : 1) {
    if (group_ == 0) {
      FailField(*this, "shuffle_channel_param.group", "group must be above 0");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.axes() < 2) {
      FailInputs(*this, StrCat("the input needs 2 axes or more (batch, channels), but it is ",
                               ToString(shape)));
    }
    if (shape[1] % group_ != 0) {
      FailField(*this, "shuffle_channel_param.group",
                StrCat("group ", group_, " does not divide the ", shape[1],
                       " channels of the input of shape ", ToString(shape)));
    }
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = Reach::kSample;
    info.moves_only = true;
    info.view = group_ == 1;
    return info;
  }

  // Output channel i * group + g is input channel g * each + i.
  StridedBlock Move(const Shape& shape) const override {
    const int64_t plane = shape.count(2);
    const int64_t each = shape[1] / group_;
    StridedBlock block;
    block.Add(shape[0], shape.count(1), shape.count(1));
    block.Add(each, plane, group_ * plane);
    block.Add(group_, each * plane, plane);
    block.Add(plane, 1, 1);
    return block;
  }

 private:
  const int64_t group_;
};

}  // namespace

void RegisterShuffleChannel(Registry& registry) {
  LayerType type;
  type.name = "ShuffleChannel";
  type.traits = {.fits_16_bits = true};
  type.category = "shape";
  type.summary = "Mixes the channels of groups, between grouped convolutions.";
  type.formula = "y[n, i * group + g, ..] = x[n, g * (C / group) + i, ..]";
  type.input_docs = {"x: N x C x .., any number of axes from 2"};
  type.output_docs = {"y: the shape of x"};
  type.origin = "ShuffleNet";
  type.param_fields = {"shuffle_channel_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const ShuffleChannel>(p); };
  const SampleInput input{.shape = {2, 6, 2, 3}};
  type.samples = {
      {.name = "three", .prototxt = "shuffle_channel_param { group: 3 }", .inputs = {input}},
      {.name = "two", .prototxt = "shuffle_channel_param { group: 2 }", .inputs = {input}},
      {.name = "one", .prototxt = "shuffle_channel_param { group: 1 }", .inputs = {input}},
      {.name = "as_many_as_channels",
       .prototxt = "shuffle_channel_param { group: 6 }",
       .inputs = {{.shape = {2, 6}}}},
      {.name = "large",
       .prototxt = "shuffle_channel_param { group: 4 }",
       .inputs = {{.shape = {2, 12, 40, 41}}}},
      {.name = "empty_batch",
       .prototxt = "shuffle_channel_param { group: 3 }",
       .inputs = {{.shape = {0, 6, 2}}}},
  };
  type.bad_samples = {
      {"shuffle_channel_param { group: 0 }", {{2, 6}}, "above 0"},
      {"shuffle_channel_param { group: 4 }", {{2, 6, 3}}, "does not divide the 6"},
      {"shuffle_channel_param { group: 2 }", {{6}}, "2 axes or more"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
