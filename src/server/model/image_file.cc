#include "server/model/image_file.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "core/strings.h"
#include "data/image/image.h"
#include "data/image/image_jpeg.h"
#include "inference/image_input.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

// Checks the size in a JPEG header; other formats are limited when decoded.
void RefuseLarge(std::string_view file, const RequestLimits& limits) {
  if (file.size() > limits.image_bytes) {
    Refuse(Cause::kTooLarge, StrCat("an image file may have ", limits.image_bytes, " bytes"));
  }
#ifdef CREMA_HAVE_JPEG
  if (!IsJpeg(file)) return;
  const Shape shape = JpegFile(file, ColorMode::kGray, "the image").shape();
  if (shape.count() > limits.image_pixels) {
    Refuse(Cause::kTooLarge, StrCat("an image may have ", limits.image_pixels, " pixels"));
  }
#endif
}

// Errors of the decoder become those of the request.
template <typename Work>
void OrRefuse(std::string_view refusal, Work&& work) {
  try {
    work();
  } catch (const RequestError&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    // Unsupported by this build, or its module is damaged.
    if (error.code() == ErrorCode::kUnsupported) {
      throw RequestError(Cause::kMediaType,
                         "this server cannot read or scale pictures of this kind", error.what());
    }
    Refuse(Cause::kBadRequest, std::string(refusal));
  }
}

// The decoder read the image, so that a failure needs another message than that of OrRefuse.
ImagePlacement PlaceOrRefuse(const ModelDescription& model, const Image& image) {
  const std::vector<int64_t>& dims = ImageInput(model)->shape;
  try {
    return PlaceImage(model.preprocessing, image.height, image.width, static_cast<int>(dims[2]),
                      static_cast<int>(dims[3]));
  } catch (const Error& error) {
    Refuse(Cause::kBadRequest, error.problems().front().message);
  }
}

// Returns the shape of the decoded images; without axes for one of any size. Refuses what
// FitRequest would, because decoding is slow.
Shape ShapeOfImages(const ModelDescription& model, int64_t max_batch, const RequestLimits& limits,
                    const InputTensor& input) {
  if (!TakesImage(model) || model.inputs.size() != 1 || input.name != model.inputs[0].name) {
    Refuse(Cause::kBadRequest,
           StrCat("input '", input.name,
                  "' takes no encoded images (BYTES); send its elements as FP32"));
  }
  if (input.shape.axes() > 2 || input.shape.count() != input.shape[0]) {
    Refuse(Cause::kBadRequest, StrCat("input '", input.name, "' has images in the shape ",
                                      ToString(input.shape), "; it is [n] or [n,1]"));
  }
  const std::vector<int64_t>& dims = model.inputs[0].shape;
  const auto images = static_cast<int64_t>(input.images.size());
  const int64_t most = dims[0] > 0 ? dims[0] : max_batch;
  if (images > most) {
    Refuse(Cause::kBadRequest,
           StrCat("a request may have ", most, " samples, this one has ", images));
  }
  if (TakesPixels(model.inputs[0])) return {};  // each image has its own
  const Shape sample{1, dims[1], dims[2], dims[3]};
  // Divides instead of multiplying, to avoid overflow.
  if (images > limits.elements / sample.count()) {
    Refuse(Cause::kTooLarge, StrCat("more than ", limits.elements, " elements in one request"));
  }
  return {images, dims[1], dims[2], dims[3]};
}

}  // namespace

PlacedImage AppendFromFile(const ModelDescription& model, std::string_view file, int64_t crops,
                           std::string_view refusal, const RequestLimits& limits,
                           std::vector<float>* values) {
  const int64_t channels = ImageInput(model)->shape[1];
  PlacedImage placed;
  OrRefuse(refusal, [&] {
    RefuseLarge(file, limits);
    Image image;
    DecodeImage(file, channels == 1 ? ColorMode::kGray : ColorMode::kColor, "the image", &image);
    placed = {image.height, image.width, PlaceOrRefuse(model, image)};
    const int height = placed.place.input_height, width = placed.place.input_width;
    const int64_t elements = crops * channels * height * width;
    if (elements > limits.elements) {
      Refuse(Cause::kTooLarge, StrCat("more than ", limits.elements, " elements in one request"));
    }
    const size_t begin = values->size();
    values->resize(begin + static_cast<size_t>(elements));
    const std::span<float> sample = std::span(*values).subspan(begin);
    if (crops == 1) {
      FillImageInput(image, model.preprocessing, height, width, sample);
    } else {
      FillCrops(image, model.preprocessing, height, width, sample);
    }
  });
  return placed;
}

PlacedImage SetPixelsFromFile(std::string_view file, std::string_view refusal,
                              const RequestLimits& limits, InputTensor* input,
                              InferRequest* request) {
  const auto image = std::make_shared<Image>();
  OrRefuse(refusal, [&] {
    RefuseLarge(file, limits);
    DecodeImage(file, ColorMode::kColor, "the image", image.get());
  });
  // A cascade computes most of its pixels, which takes far more memory than the image.
  if (int64_t{image->height} * image->width > limits.elements) {
    Refuse(Cause::kTooLarge,
           StrCat("an image may have ", limits.elements, " pixels for a cascade"));
  }
  input->shape = Shape{1, image->channels, image->height, image->width};
  input->raw = {reinterpret_cast<const char*>(image->pixels.data()), image->pixels.size()};
  request->keep = image;
  return {image->height, image->width, {}};
}

bool HasImages(const InferRequest& request) {
  return std::ranges::any_of(request.inputs,
                             [](const InputTensor& input) { return !input.images.empty(); });
}

void DecodeImages(const ModelDescription& model, int64_t max_batch, const RequestLimits& limits,
                  InferRequest* request) {
  int64_t pixels = 0;
  for (InputTensor& input : request->inputs) {
    if (input.images.empty()) continue;
    const Shape shape = ShapeOfImages(model, max_batch, limits, input);
    if (shape.axes() == 0) {
      const std::string file = std::move(input.images[0]);
      input.images.clear();
      SetPixelsFromFile(
          file, StrCat("element 0 of input '", input.name, "' cannot be decoded as an image"),
          limits, &input, request);
      continue;
    }
    input.values.reserve(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < input.images.size(); ++i) {
      if (request->cancelled && *request->cancelled) {
        Refuse(Cause::kCancelled, "the client gave the request up");
      }
      const PlacedImage placed = AppendFromFile(
          model, input.images[i], 1,
          StrCat("element ", i, " of input '", input.name, "' cannot be decoded as an image"),
          limits, &input.values);
      pixels += int64_t{placed.height} * placed.width;
      if (pixels > limits.pixels) {
        Refuse(Cause::kTooLarge,
               StrCat("the images of a request may have ", limits.pixels, " pixels together"));
      }
    }
    input.shape = shape;
    input.images.clear();
  }
}

}  // namespace crema::server
