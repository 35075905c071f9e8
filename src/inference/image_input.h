// Writes images to the input of a deploy net.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "crema.pb.h"
#include "data/image/image.h"
#include "format/prototxt.h"
#include "inference/preprocessing.h"

namespace crema {

// Throws kInvalidArgument for a net that reads a data set or computes a loss from labels. Call it
// before planning, which would only report the missing data.
void RefuseTrainingNet(const NetFile& net, const NetState& state);

// Reads the mean of --mean from a BlobProto file for an input of shape C x H x W: unchanged if the
// sizes are equal, otherwise averaged per channel. Throws kInvalidArgument if the number of
// channels differs.
std::vector<float> ReadMean(const std::string& path, const Shape& input);

// Fits an image to C x H x W and writes it to `values`. Requires: the same number of channels, and
// no problem in the preprocessing.
void FillImageInput(const Image& image, const Preprocessing& preprocessing, int height, int width,
                    std::span<float> values);
// Does the same for an image file and an input 1 x C x H x W, C 1 (gray) or 3. Messages begin with
// `name`. Throws kDataLoss for a damaged file. Requires: no problem in the
// preprocessing.
void FillImageInput(std::string_view bytes, const std::string& name,
                    const Preprocessing& preprocessing, const TensorView& input);

// Returns the number of samples that a classifier takes of an image: 10 with ten_crops, else 1.
int64_t CropsOf(const Preprocessing& preprocessing);
// Writes these samples, one after another; without ten_crops the same as FillImageInput.
void FillCrops(const Image& image, const Preprocessing& preprocessing, int height, int width,
               std::span<float> values);

}  // namespace crema
