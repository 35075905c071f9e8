#include "layers/input/pixels_to_float.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/image/pixel_kernels.h"
#include "graph/registry.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread
constexpr int64_t kPiece = 512;      // pixels of a row that stay in the L1 cache

constexpr int kBatchAxis = 0;
constexpr int kHeightAxis = 1;
constexpr int kWidthAxis = 2;
constexpr int kChannelAxis = 3;

}  // namespace

// One row of pixels of a sample.
struct PixelsToFloat::Row {
  const uint8_t* pixels;
  const Shape& shape;  // of the batch of pixels
  int64_t y;
  PixelPlacement placement;
};

PixelsToFloat::PixelsToFloat(const LayerParameter& param) : Layer(param) {
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

LayerInfo PixelsToFloat::Infer(const InferContext& context) const {
  const Shape& pixels = context.inputs[0].shape;
  if (pixels.axes() != 4) {
    FailInputs(*this, StrCat("it takes pixels of batch x height x width x channels, but gets ",
                             ToString(pixels)));
  }
  const bool placed = context.inputs.size() > 1;
  if (placed && context.inputs[1].shape != Shape{pixels[kBatchAxis], kPlacementBytes}) {
    FailInputs(*this, StrCat("it takes placements of batch x ", kPlacementBytes, ", but gets ",
                             ToString(context.inputs[1].shape)));
  }
  const Shape image{pixels[kChannelAxis], pixels[kHeightAxis], pixels[kWidthAxis]};
  CheckMean(image, placed);
  LayerInfo info;
  info.outputs = {{Shape{pixels[kBatchAxis], image[0], image[1], image[2]}, context.dtype}};
  info.reach = Reach::kSample;
  info.gradient_forbidden.assign(context.inputs.size(), true);
  return info;
}

void PixelsToFloat::Forward(const ForwardArgs& args) const {
  DispatchFloat(args.outputs[0].dtype(), [&]<typename T>(T) { Convert<T>(args); });
}

void PixelsToFloat::CheckFields(const TransformationParameter& transform) const {
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

// Fails unless the means fit images of shape `image`, C x H x W.
void PixelsToFloat::CheckMean(const Shape& image, bool placed) const {
  const int means = param().transform_param().mean_value_size();
  if (means > 1 && means != image[0]) {
    FailField(*this, "transform_param.mean_value",
              StrCat("there are ", means, " entries of mean_value, but the pixels have ", image[0],
                     " channels: give one, or one each"));
  }
  if (!mean_ || mean_->shape == image) return;
  const Shape& mean = mean_->shape;
  if (placed && mean[0] == image[0] && mean[1] >= image[1] && mean[2] >= image[2]) return;
  FailField(
      *this, "transform_param.mean_file",
      StrCat("the mean image '", param().transform_param().mean_file(), "' is ", ToString(mean),
             ", but the pixels, which are cropped already, are ", ToString(image),
             " (channels x height x width): give mean_value, or a mean image of that size"));
}

void PixelsToFloat::CheckPlacement(const PixelPlacement& placement, const Shape& pixels,
                                   int64_t sample) const {
  if (!mean_) return;
  const auto lies_in = [](int64_t begin, int64_t size, int64_t whole) {
    return begin >= 0 && begin + size <= whole;
  };
  if (lies_in(placement.top, pixels[kHeightAxis], mean_->shape[1]) &&
      lies_in(placement.left, pixels[kWidthAxis], mean_->shape[2])) {
    return;
  }
  FailInputs(*this, StrCat("the pixels of sample ", sample, " are placed at row ", placement.top,
                           ", column ", placement.left, ", outside of the mean image of ",
                           ToString(mean_->shape)));
}

template <typename T>
void PixelsToFloat::Convert(const ForwardArgs& args) const {
  const ConstTensorView& in = args.inputs[0];
  const Shape& shape = in.shape();
  const int64_t height = shape[kHeightAxis];
  const int64_t row_bytes = shape.count(kWidthAxis);
  const int64_t sample = height * row_bytes;
  std::vector<PixelPlacement> placements(static_cast<size_t>(shape[kBatchAxis]));
  for (int64_t n = 0; args.inputs.size() > 1 && n < shape[kBatchAxis]; ++n) {
    PixelPlacement& placement = placements[static_cast<size_t>(n)];
    placement = LoadPlacement(args.inputs[1].data<uint8_t>() + n * kPlacementBytes);
    CheckPlacement(placement, shape, n);
  }
  ParallelFor(args.context.threads(), shape[kBatchAxis] * height,
              std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row_bytes)),
              [&](int64_t begin, int64_t end, int) {
                for (int64_t r = begin; r < end; ++r) {
                  const int64_t n = r / height;
                  ConvertRow(Row{.pixels = in.data<uint8_t>() + r * row_bytes,
                                 .shape = shape,
                                 .y = r % height,
                                 .placement = placements[static_cast<size_t>(n)]},
                             args.outputs[0].data<T>() + n * sample);
                }
              });
}

// `image` points to the first channel of the output sample.
template <typename T>
void PixelsToFloat::ConvertRow(const Row& row, T* image) const {
  const int64_t width = row.shape[kWidthAxis];
  const int64_t channels = row.shape[kChannelAxis];
  const int64_t plane = row.shape[kHeightAxis] * width;
  uint8_t lanes[3][kPiece];
  for (int64_t begin = 0; begin < width; begin += kPiece) {
    const int64_t count = std::min(kPiece, width - begin);
    const uint8_t* packed = row.pixels + begin * channels;
    if (channels == 3) SplitPixels(packed, count, lanes[0], lanes[1], lanes[2]);
    for (int64_t c = 0; c < channels; ++c) {
      const uint8_t* lane = channels == 1 ? packed : lanes[channels == 3 ? c : 0];
      if (channels != 1 && channels != 3) {
        for (int64_t x = 0; x < count; ++x) lanes[0][x] = packed[x * channels + c];
      }
      const float* mean = nullptr;
      if (mean_) {
        const int64_t y = c * mean_->shape[1] + row.placement.top + row.y;
        mean = mean_->values.data() + y * mean_->shape[2] + row.placement.left + begin;
      }
      const int64_t x = row.placement.mirror ? width - begin - count : begin;
      ConvertPlane(PlaneRows<uint8_t, T>{.pixels = lane,
                                         .mean = mean,
                                         .stride = 0,  // one row
                                         .mean_value = MeanValue<T>(c),
                                         .scale = static_cast<T>(param().transform_param().scale()),
                                         .height = 1,
                                         .width = static_cast<int>(count),
                                         .mirror = row.placement.mirror,
                                         .out = image + c * plane + row.y * width + x});
    }
  }
}

template <typename T>
T PixelsToFloat::MeanValue(int64_t channel) const {
  const auto& values = param().transform_param().mean_value();
  if (values.empty()) return T(0);
  return static_cast<T>(values.Get(values.size() == 1 ? 0 : static_cast<int>(channel)));
}

namespace {

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
          sample("empty_batch", "", {0, 4, 4, 3}),
          {.name = "mirrored",
           .prototxt = "transform_param { mean_value: 104 mean_value: 117 mean_value: 123 }",
           .inputs = {pixels({5, 3, 517, 3}),
                      {.shape = {5, kPlacementBytes}, .low = 0, .high = 1, .integer = true}},
           .gradient = false}};
}

std::vector<BadSample> BadSamples() {
  const std::vector<std::vector<int64_t>> pixels = {{2, 4, 4, 3}};
  return {{"", {{2, 48}}, "but gets 2x48"},
          {"transform_param { crop_size: 3 }", pixels,
           "move crop_size to the transform_param of the data layer"},
          {"transform_param { mirror: true }", pixels, "move mirror to"},
          {"transform_param { mean_value: 1 mean_value: 2 }", pixels,
           "2 entries of mean_value, but the pixels have 3 channels"},
          {"transform_param { mean_file: 'no/such/mean' mean_value: 2 }", pixels,
           "mean_file and mean_value exclude each other"},
          {"transform_param { mean_file: 'no/such/mean' }", pixels, "no/such/mean"},
          {"", {{2, 4, 4, 3}, {2, 4}}, "placements of"}};
}

}  // namespace

void RegisterPixelsToFloat(Registry& registry) {
  LayerType type;
  type.name = "PixelsToFloat";
  type.category = "input";
  type.origin = "Crema";
  type.summary =
      "Converts the bytes of a data layer with pipeline_param { output: U8 } (docs/pipeline.md) to "
      "floats: subtracts the mean, scales, and puts the channels first. The values are those of a "
      "data layer with the same mean_value and scale. Reads mean_value, mean_file and scale of "
      "transform_param; its other fields are errors. A mean image must be as large as the pixels, "
      "which are cropped, and is not mirrored with them. Bytes get no gradient. Plans for GPUs "
      "insert such a layer after data layers whose images are uploaded as bytes, and give it "
      "placements: then it mirrors, and reads the mean image at the position of the crop.";
  type.formula = "y[n][c][h][w] = (x[n][h][w][c] - mean) * scale";
  type.input_docs = {"x: bytes, batch x H x W x C",
                     "placements, made by planning only: bytes, batch x 12"};
  type.output_docs = {"y: batch x C x H x W"};
  type.param_fields = {"transform_param"};
  type.inputs = {.min = 1, .max = 2};
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
