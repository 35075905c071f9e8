#include "inference/image_input.h"

#include <array>
#include <set>
#include <utility>

#include "core/strings.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "data/image/image.h"
#include "format/blob_proto.h"
#include "format/caffemodel.h"
#include "graph/graph.h"

namespace crema {
namespace {

// Requires: the size of the input.
void FillFitted(const Image& image, const Preprocessing& preprocessing, std::span<float> values) {
  const auto channels = static_cast<size_t>(image.channels);
  const size_t plane = image.pixels.size() / channels;
  CREMA_CHECK(values.size() == image.pixels.size());
  for (size_t c = 0; c < channels; ++c) {
    const size_t source = preprocessing.rgb ? channels - 1 - c : c;
    const uint8_t* const pixels = image.pixels.data() + source * plane;
    float* const out = values.data() + c * plane;
    if (preprocessing.mean.size() > channels) {  // a mean image
      for (size_t i = 0; i < plane; ++i) {
        out[i] = PreprocessedValue(preprocessing, pixels[i], c, channels, c * plane + i);
      }
      continue;
    }
    std::array<float, 256> table;
    for (size_t v = 0; v < table.size(); ++v) {
      table[v] = PreprocessedValue(preprocessing, static_cast<float>(v), c, channels, c * plane);
    }
    for (size_t i = 0; i < plane; ++i) out[i] = table[pixels[i]];
  }
}

}  // namespace

void RefuseTrainingNet(const NetFile& net, const NetState& state) {
  constexpr const char* kRemedy =
      ": this is a net for training; give the deploy net, which begins with an Input layer and has "
      "no loss; deploy export makes a model from a training net";
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

std::vector<float> ReadMean(const std::string& path, const Shape& input) {
  const BlobProto blob = ReadBlobProtoFile(path);
  const Shape shape = ShapeOf(blob);
  const int64_t plane = shape.axes() >= 2 ? shape[shape.axes() - 1] * shape[shape.axes() - 2] : 1;
  Tensor tensor(shape, DType::kF32);
  CopyTo(blob, tensor.view());
  const std::span<const float> values = std::as_const(tensor).view().span<float>();
  if (plane == 0 || shape.count() != plane * input[0]) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the mean is ", ToString(shape), ", but the net's input has ", input[0],
                " channels"),
         {.file = path});
  }
  if (shape.count() == input.count()) return {values.begin(), values.end()};
  std::vector<float> means;
  for (int64_t c = 0; c < input[0]; ++c) {
    double sum = 0;
    for (int64_t i = 0; i < plane; ++i) sum += values[static_cast<size_t>(c * plane + i)];
    means.push_back(static_cast<float>(sum / static_cast<double>(plane)));
  }
  return means;
}

void FillImageInput(const Image& image, const Preprocessing& preprocessing, int height, int width,
                    std::span<float> values) {
  const bool fits = image.height == height && image.width == width &&
                    (preprocessing.fit != ImageFit::kCrop || preprocessing.resize_height == 0) &&
                    preprocessing.short_side == 0;
  if (!fits)
    return FillFitted(FitImage(image, preprocessing, height, width), preprocessing, values);
  FillFitted(image, preprocessing, values);
}

void FillImageInput(std::string_view bytes, const std::string& name,
                    const Preprocessing& preprocessing, const TensorView& input) {
  const Shape& shape = input.shape();
  Image image;
  DecodeImage(bytes, shape[1] == 1 ? ColorMode::kGray : ColorMode::kColor, name, &image);
  FillImageInput(image, preprocessing, static_cast<int>(shape[2]), static_cast<int>(shape[3]),
                 input.span<float>());
}

int64_t CropsOf(const Preprocessing& preprocessing) { return preprocessing.ten_crops ? 10 : 1; }

void FillCrops(const Image& image, const Preprocessing& preprocessing, int height, int width,
               std::span<float> values) {
  if (!preprocessing.ten_crops) {
    return FillImageInput(image, preprocessing, height, width, values);
  }
  const std::vector<Image> crops = TenCrops(image, preprocessing, height, width);
  const size_t sample = values.size() / crops.size();
  for (size_t i = 0; i < crops.size(); ++i) {
    FillFitted(crops[i], preprocessing, values.subspan(i * sample, sample));
  }
}

}  // namespace crema
