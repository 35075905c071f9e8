// Reorg: divides the sides of planes by `stride` and multiplies the channels by stride^2, or the
// reverse.
// With C x H x W the shape of the input, s the stride and c = C / s^2, both directions pair
//   element (a, b, k, j, i) of s x s x c x H x W      (channels are the slow part of a, b, k)
//   element (k, j, a, i, b) of c x H x s x W x s      (pixels in blocks of s x s)
// `reverse` reads the first and writes the second: channels become pixels. Without it, Reorg reads
// the second and writes the first. That is what YOLOv2's passthrough computes and its weights
// expect, although its input is not stored as c x (H s) x (W s). So neither direction inverts the
// other.
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/shape/mover.h"

namespace crema {
namespace {

constexpr int64_t kMostStride = 32767;  // keeps its square below 2^31

class Reorg final : public ElementMove {
 public:
  explicit Reorg(const LayerParameter& param)
      : ElementMove(param),
        stride_(param.reorg_param().stride()),
        reverse_(param.reorg_param().reverse()) {
    if (!param.reorg_param().has_stride()) {
      FailField(*this, "reorg_param.stride", "stride, the side of a block, is missing");
    }
    if (stride_ < 1 || stride_ > kMostStride) {
      FailField(*this, "reorg_param.stride",
                StrCat("stride must be 1 to ", kMostStride, ", but it is ", stride_));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.axes() != 4) {
      FailInputs(*this, StrCat("Reorg works on inputs of 4 axes (batch, channels, height, width), ",
                               "but the input is ", ToString(shape)));
    }
    const int64_t block = stride_ * stride_;
    if (shape[1] % block != 0) {
      FailField(*this, "reorg_param.stride",
                StrCat("the square of stride ", stride_, " does not divide the ", shape[1],
                       " channels of the input of shape ", ToString(shape)));
    }
    if (!reverse_ && (shape[2] % stride_ != 0 || shape[3] % stride_ != 0)) {
      FailField(
          *this, "reorg_param.stride",
          StrCat("stride ", stride_, " does not divide height and width of the input of shape ",
                 ToString(shape)));
    }
    LayerInfo info;
    info.outputs = {
        {reverse_ ? Shape{shape[0], shape[1] / block, shape[2] * stride_, shape[3] * stride_}
                  : Shape{shape[0], shape[1] * block, shape[2] / stride_, shape[3] / stride_},
         context.inputs[0].dtype}};
    info.reach = Reach::kSample;
    info.moves_only = true;
    info.view = stride_ == 1;
    return info;
  }

  StridedBlock Move(const Shape& shape) const override {
    const int64_t s = stride_;
    const int64_t height = shape[2], width = shape[3], plane = height * width;
    const int64_t channels = shape[1] / (s * s);
    StridedBlock block;  // reads blocks of pixels, writes channels
    block.Add(shape[0], shape.count(1), shape.count(1));
    block.Add(s, width * s, s * channels * plane);  // a
    block.Add(s, 1, channels * plane);              // b
    block.Add(channels, plane * s * s, plane);      // k
    block.Add(height, width * s * s, width);        // j
    block.Add(width, s, 1);                         // i
    return reverse_ ? block.Reversed() : block;
  }

 private:
  const int64_t stride_;
  const bool reverse_;
};

}  // namespace

void RegisterReorg(Registry& registry) {
  LayerType type;
  type.name = "Reorg";
  type.traits = {.fits_16_bits = true};
  type.category = "shape";
  type.summary =
      "Turns blocks of pixels into channels (YOLOv2's passthrough), or channels into pixels.";
  type.formula =
      "s = stride, c = C / s^2; reverse: y[n, k, j s + a, i s + b] = x[n, (a s + b) c + k, j, i]; "
      "else the elements (a, b, k, j, i) of y = the elements (k, j, a, i, b) of x, both in the "
      "shape of the input";
  type.input_docs = {"x: N x C x H x W, C divisible by stride^2; H and W by stride if not reverse"};
  type.output_docs = {
      "y: N x C stride^2 x H/stride x W/stride, or N x C/stride^2 x H stride x W stride"};
  type.differences = {
      "The order of elements is that of IntelCaffe and darknet, which trained YOLOv2 nets depend "
      "on; it is not the plain space-to-depth, and reverse does not undo it.",
      "The size of the input may change from batch to batch."};
  type.origin = "IntelCaffe";
  type.param_fields = {"reorg_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Reorg>(p); };
  const SampleInput input{.shape = {2, 8, 4, 6}};
  type.samples = {
      {.name = "forward", .prototxt = "reorg_param { stride: 2 }", .inputs = {input}},
      {.name = "reverse",
       .prototxt = "reorg_param { stride: 2 reverse: true }",
       .inputs = {{.shape = {2, 8, 3, 5}}}},
      {.name = "three",
       .prototxt = "reorg_param { stride: 3 }",
       .inputs = {{.shape = {1, 9, 3, 6}}}},
      {.name = "one", .prototxt = "reorg_param { stride: 1 }", .inputs = {input}},
      {.name = "large",
       .prototxt = "reorg_param { stride: 2 }",
       .inputs = {{.shape = {1, 64, 26, 26}}}},
      {.name = "empty_batch",
       .prototxt = "reorg_param { stride: 2 }",
       .inputs = {{.shape = {0, 4, 2, 2}}}},
  };
  type.bad_samples = {
      {"", {{1, 4, 2, 2}}, "is missing"},
      {"reorg_param { stride: 0 }", {{1, 4, 2, 2}}, "it is 0"},
      {"reorg_param { stride: 2 }", {{1, 3, 2, 2}}, "does not divide the 3 channels"},
      {"reorg_param { stride: 2 }", {{1, 4, 3, 2}}, "does not divide height and width"},
      {"reorg_param { stride: 2 }", {{4, 2, 2}}, "4 axes"},
      {"reorg_param { stride: 4294967295 }", {{1, 4, 2, 2}}, "1 to 32767"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
