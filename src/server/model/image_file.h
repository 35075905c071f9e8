// Encoded images as inputs of a model.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "inference/preprocessing.h"
#include "server/limits.h"
#include "server/model/executable.h"
#include "server/protocol/infer_message.h"

namespace crema::server {

struct PlacedImage {
  int height = 0;  // of the image
  int width = 0;
  ImagePlacement place;  // in the input
};

// Decodes an image file, preprocesses it as the model's card specifies, and appends it to `values`:
// `crops` samples, 1 or CropsOf(). Without the others, the crop in the middle.
// Requires: TakesImage. Throws kBadRequest, with the message `refusal`, if it is not an image, and
// with the reason if it is too narrow to be resized; kTooLarge above the limits; kMediaType if this
// build cannot read it.
PlacedImage AppendFromFile(const ModelDescription& model, std::string_view file, int64_t crops,
                           std::string_view refusal, const RequestLimits& limits,
                           std::vector<float>* values);

// Decodes an image file for an input that TakesPixels: sets its shape and pixels, at most
// `limits.elements` of them. Throws like AppendFromFile.
PlacedImage SetPixelsFromFile(std::string_view file, std::string_view refusal,
                              const RequestLimits& limits, InputTensor* input,
                              InferRequest* request);

// Returns true if an input has the datatype BYTES.
bool HasImages(const InferRequest& request);
// Replaces encoded images by the values of AppendFromFile, [n] or [n,1] by the shape of the input.
// Throws like AppendFromFile; kBadRequest if the model does not take images, or not so many;
// kCancelled between two images. `max_batch` limits the images of a model that batches.
void DecodeImages(const ModelDescription& model, int64_t max_batch, const RequestLimits& limits,
                  InferRequest* request);

}  // namespace crema::server
