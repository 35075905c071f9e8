// PixelsToFloat: y[n][c][h][w] = (x[n][h][w][c] - mean) * scale, of bytes that a data layer gives
// with pipeline_param { output: U8 } (batch x H x W x C): the last step of transform_param, with
// the same values bit for bit. mean is mean_value (one, or one a channel), or mean_file at
// (c, h, w). No gradient: bytes have none.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/parallel_for.h"
#include "core/strings.h"
#include "data/image/pixel_kernels.h"
#include "data/transform/transformer.h"
#include "graph/input_types.h"
#include "graph/registry.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements that pay for a thread
constexpr int64_t kPiece = 512;      // pixels of a row that stay in the nearest cache

constexpr int kBatchAxis = 0;
constexpr int kHeightAxis = 1;
constexpr int kWidthAxis = 2;
constexpr int kChannelAxis = 3;

class PixelsToFloat final : public Layer, public InputTypes {
 public:
  explicit PixelsToFloat(const LayerParameter& param) : Layer(param) {
    const TransformationParameter& transform = param.transform_param();
    CheckFields(transform);
    ValidateTransform(transform, param.name());
    if (!transform.has_mean_file()) return;
    try {
      mean_ = ReadMeanImage(transform.mean_file());
    } catch (const Error& error) {
      Where where{.layer = param.name()};
      where.field = "transform_param.mean_file";
      Fail(error.code(), error.problems().front().message, std::move(where));
    }
  }

  DType InputType(size_t, DType, DType) const override { return DType::kU8; }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& pixels = context.inputs[0].shape;
    if (pixels.axes() != 4) {
      FailInputs(*this, StrCat("it takes pixels of batch x height x width x channels, but gets ",
                               ToString(pixels)));
    }
    const Shape image{pixels[kChannelAxis], pixels[kHeightAxis], pixels[kWidthAxis]};
    CheckMean(image);
    LayerInfo info;
    info.outputs = {{Shape{pixels[kBatchAxis], image[0], image[1], image[2]}, context.dtype}};
    info.gradient_forbidden = {true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.outputs[0].dtype(), [&]<typename T>(T) {
      Convert<T>(args.context, args.inputs[0], args.outputs[0]);
    });
  }

 private:
  void CheckFields(const TransformationParameter& transform) const {
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    transform.GetReflection()->ListFields(transform, &fields);
    for (const auto* field : fields) {
      const std::string& name = field->name();
      if (name == "mean_value" || name == "mean_file" || name == "scale") continue;
      FailField(*this, "transform_param." + name,
                StrCat("PixelsToFloat reads mean_value, mean_file and scale only: move ", name,
                       " to the transform_param of the data layer, or remove it"));
    }
  }

  // `image` is C x H x W.
  void CheckMean(const Shape& image) const {
    const int means = param().transform_param().mean_value_size();
    if (means > 1 && means != image[0]) {
      FailField(*this, "transform_param.mean_value",
                StrCat("there are ", means, " entries of mean_value, but the pixels have ",
                       image[0], " channels: give one, or one each"));
    }
    if (!mean_ || mean_->shape == image) return;
    FailField(
        *this, "transform_param.mean_file",
        StrCat("the mean image '", param().transform_param().mean_file(), "' is ",
               ToString(mean_->shape), ", but the pixels, which are cropped already, are ",
               ToString(image),
               " (channels x height x width): give mean_value, or a mean image of that size"));
  }

  template <typename T>
  void Convert(const ExecContext& context, const ConstTensorView& in, const TensorView& out) const {
    const Shape& shape = in.shape();
    const int64_t height = shape[kHeightAxis];
    const int64_t row = shape.count(kWidthAxis);
    const int64_t plane = height * shape[kWidthAxis];
    ParallelFor(context.threads(), shape[kBatchAxis] * height,
                std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row)),
                [&](int64_t begin, int64_t end, int) {
                  for (int64_t r = begin; r < end; ++r) {
                    T* image = out.data<T>() + r / height * plane * shape[kChannelAxis];
                    ConvertRow(in.data<uint8_t>() + r * row, shape, r % height, image);
                  }
                });
  }

  // Row `y` of one image; `out` is its first channel.
  template <typename T>
  void ConvertRow(const uint8_t* in, const Shape& shape, int64_t y, T* out) const {
    const int64_t width = shape[kWidthAxis];
    const int64_t channels = shape[kChannelAxis];
    const int64_t plane = shape[kHeightAxis] * width;
    uint8_t lanes[3][kPiece];
    for (int64_t begin = 0; begin < width; begin += kPiece) {
      const int64_t count = std::min(kPiece, width - begin);
      const uint8_t* packed = in + begin * channels;
      if (channels == 3) SplitPixels(packed, count, lanes[0], lanes[1], lanes[2]);
      for (int64_t c = 0; c < channels; ++c) {
        const uint8_t* lane = channels == 1 ? packed : lanes[channels == 3 ? c : 0];
        if (channels != 1 && channels != 3) {
          for (int64_t x = 0; x < count; ++x) lanes[0][x] = packed[x * channels + c];
        }
        const int64_t place = c * plane + y * width + begin;
        ConvertPlane(
            PlaneRows<uint8_t, T>{.pixels = lane,
                                  .mean = mean_ ? mean_->values.data() + place : nullptr,
                                  .stride = 0,  // one row
                                  .mean_value = MeanValue<T>(c),
                                  .scale = static_cast<T>(param().transform_param().scale()),
                                  .height = 1,
                                  .width = static_cast<int>(count),
                                  .mirror = false,
                                  .out = out + place});
      }
    }
  }

  template <typename T>
  T MeanValue(int64_t channel) const {
    const auto& values = param().transform_param().mean_value();
    if (values.empty()) return T(0);
    return static_cast<T>(values.Get(values.size() == 1 ? 0 : static_cast<int>(channel)));
  }

  std::optional<MeanImage> mean_;
};

std::vector<LayerSample> Samples() {
  const auto pixels = [](std::vector<int64_t> shape) {
    return SampleInput{.shape = std::move(shape), .low = 0, .high = 255, .integer = true};
  };
  const auto sample = [&](std::string name, std::string prototxt, std::vector<int64_t> shape) {
    return LayerSample{.name = std::move(name),
                       .prototxt = std::move(prototxt),
                       .inputs = {pixels(std::move(shape))},
                       .gradient = false};
  };
  return {sample("colour",
                 "transform_param { mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.017 }",
                 {2, 5, 7, 3}),
          sample("plain", "", {2, 5, 7, 3}),
          sample("grey", "transform_param { mean_value: 33 }", {3, 4, 6, 1}),
          sample("five_channels", "transform_param { mean_value: 33 scale: 0.5 }", {2, 4, 6, 5}),
          sample("long_rows", "transform_param { mean_value: 1 mean_value: 2 mean_value: 3 }",
                 {2, 3, 1031, 3}),
          sample("many_rows", "transform_param { scale: 0.00390625 }", {4, 64, 64, 3}),
          sample("empty_batch", "", {0, 4, 4, 3})};
}

std::vector<BadSample> BadSamples() {
  const std::vector<std::vector<int64_t>> pixels = {{2, 4, 4, 3}};
  return {{.prototxt = "", .input_shapes = {{2, 48}}, .expect = "but gets 2x48"},
          {.prototxt = "transform_param { crop_size: 3 }",
           .input_shapes = pixels,
           .expect = "move crop_size to the transform_param of the data layer"},
          {.prototxt = "transform_param { mirror: true }",
           .input_shapes = pixels,
           .expect = "move mirror to"},
          {.prototxt = "transform_param { mean_value: 1 mean_value: 2 }",
           .input_shapes = pixels,
           .expect = "2 entries of mean_value, but the pixels have 3 channels"},
          {.prototxt = "transform_param { mean_file: 'no/such/mean' mean_value: 2 }",
           .input_shapes = pixels,
           .expect = "mean_file and mean_value exclude each other"},
          {.prototxt = "transform_param { mean_file: 'no/such/mean' }",
           .input_shapes = pixels,
           .expect = "no/such/mean"}};
}

}  // namespace

void RegisterPixelsToFloat(Registry& registry) {
  LayerType type;
  type.name = "PixelsToFloat";
  type.category = "input";
  type.origin = "Crema";
  type.summary =
      "The numbers of pixels that a data layer gives as bytes, with pipeline_param { output: U8 } "
      "(docs/pipeline.md): subtracts the mean, scales, and puts the channels first. The values are "
      "those that the data layer gives with the same mean_value and scale of its own. Of "
      "transform_param it reads mean_value, mean_file and scale; the others are an error. A mean "
      "image must be as large as the pixels, which are cropped already, and is not mirrored with "
      "them. Bytes get no gradient.";
  type.formula = "y[n][c][h][w] = (x[n][h][w][c] - mean) * scale";
  type.input_docs = {"x: bytes, batch x H x W x C"};
  type.output_docs = {"y: batch x C x H x W"};
  type.param_fields = {"transform_param"};
  type.example =
      "bottom: \"pixels\"\n"
      "top: \"data\"\n"
      "transform_param { mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.017 }";
  type.make = [](const LayerParameter& p) { return std::make_unique<const PixelsToFloat>(p); };
  type.samples = Samples();
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
