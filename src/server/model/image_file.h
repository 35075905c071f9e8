// Encoded images as inputs of a model.
#pragma once

#include <span>
#include <string_view>

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

// Decodes an image file and preprocesses it as the model's card specifies. Requires: TakesImage,
// and as many values as a sample has. Throws kBadRequest, with the message
// `refusal`, if it is not an image, and with the reason if it is too narrow for the crop; kTooLarge
// above the limits; kMediaType if this build cannot read it.
PlacedImage FillFromFile(const ModelDescription& model, std::string_view file,
                         std::string_view refusal, const RequestLimits& limits,
                         std::span<float> values);

// Returns true if an input has the datatype BYTES.
bool HasImages(const InferRequest& request);
// Replaces encoded images by the values of FillFromFile, [n] or [n,1] by the shape of the input.
// Throws like FillFromFile; kBadRequest if the model does not take images, or not so many;
// kCancelled between two images. `max_batch` limits the images of a model that batches.
void DecodeImages(const ModelDescription& model, int64_t max_batch, const RequestLimits& limits,
                  InferRequest* request);

}  // namespace crema::server
