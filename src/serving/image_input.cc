#include "serving/image_input.h"

#include <set>

#include "core/strings.h"
#include "data/image/resize.h"
#include "graph/graph.h"

namespace crema {

NetParameter ForOneImage(const NetParameter& net) {
  NetParameter one = net;
  for (LayerParameter& layer : *one.mutable_layer()) {
    if (layer.type() != "Input") continue;
    for (BlobShape& shape : *layer.mutable_input_param()->mutable_shape()) {
      if (shape.dim_size() == 4 && shape.dim(0) > 0) shape.set_dim(0, 1);
    }
  }
  return one;
}

void RefuseTrainingNet(const NetFile& net, const NetState& state) {
  constexpr const char* kRemedy =
      ": this is a net for training; give the deploy net, which begins with an Input layer and has "
      "no loss";
  std::set<std::string> blobs;
  for (int i = 0; i < net.net.layer_size(); ++i) {
    const LayerParameter& layer = net.net.layer(i);
    Where where = net.source.Locate(StrCat("layer[", i, "]"));
    where.layer = layer.name();
    const bool both_rules = layer.include_size() > 0 && layer.exclude_size() > 0;  // reported later
    if (both_rules || !IsIncluded(layer, state)) continue;
    blobs.insert(layer.top().begin(), layer.top().end());
    if (layer.bottom_size() == 0 && layer.type().ends_with("Data")) {
      Fail(ErrorCode::kInvalidArgument, StrCat("reads a data set (", layer.type(), ")", kRemedy),
           where);
    }
    if (layer.type().find("Loss") == std::string::npos) continue;
    for (const std::string& bottom : layer.bottom()) {
      if (blobs.contains(bottom)) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("computes a loss from '", bottom, "', which is not there", kRemedy), where);
    }
  }
}

std::string FindImageInput(const Plan& plan, const std::string& file, const std::string& task) {
  std::vector<std::string> inputs;
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.type->name != "Input") continue;
    for (int v : layer.outputs) inputs.push_back(plan.values[static_cast<size_t>(v)].name);
  }
  if (inputs.size() != 1) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("a net for ", task, " has one input; this one has ", inputs.size(),
                inputs.empty() ? ": give the deploy net, which begins with an Input layer" : ""),
         {.file = file});
  }
  const int value = plan.FindFirstValue(inputs[0]);
  if (plan.values[static_cast<size_t>(value)].spec.dtype == DType::kU8) {
    Fail(ErrorCode::kUnsupported,
         StrCat("input '", inputs[0],
                "' holds bytes, but images are handed over as numbers: remove pipeline_param and "
                "the PixelsToFloat layer, and give mean and scale as flags"),
         {.file = file});
  }
  return inputs[0];
}

PictureSize FillImageInput(const std::string& bytes, const std::string& name,
                           const Preprocessing& preprocessing, const TensorView& input) {
  const auto channels = static_cast<size_t>(input.shape()[1]);
  const auto height = static_cast<int>(input.shape()[2]);
  const auto width = static_cast<int>(input.shape()[3]);
  Image image;
  DecodeImage(bytes, channels == 1 ? ColorMode::kGray : ColorMode::kColor, name, &image);
  const PictureSize size{image.height, image.width};
  if (image.height != height || image.width != width) image = Resize(image, height, width);
  const std::span<float> values = input.span<float>();
  const size_t plane = image.pixels.size() / channels;
  const std::vector<float>& mean = preprocessing.mean;
  CREMA_CHECK(mean.empty() || mean.size() == channels || mean.size() == values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t channel = i / plane;
    const size_t source = preprocessing.rgb ? channels - 1 - channel : channel;
    const auto pixel = static_cast<float>(image.pixels[source * plane + i % plane]);
    const float value = preprocessing.invert ? 255 - pixel : pixel;
    const float subtract = mean.empty()                   ? 0
                           : mean.size() == values.size() ? mean[i]
                                                          : mean[channel];
    values[i] = (value - subtract) * preprocessing.scale;
  }
  return size;
}

}  // namespace crema
