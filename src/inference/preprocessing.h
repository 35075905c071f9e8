// How pixels become the input of a net.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/shape.h"
#include "data/image/image.h"

namespace crema {

// How an image gets the height and width of the input.
enum class ImageFit {
  kStretch,    // the whole image, with another aspect
  kCrop,       // resized, then the part in its middle
  kLetterbox,  // the whole image with its aspect, and bars beside or above it
  kReshape,    // the whole image with its aspect: the input takes its size
};

// Size and values of an image input. Computes
// ((invert ? 255 - v : v) * range / 255 - mean) * scale / deviation for each pixel value v.
struct Preprocessing {
  bool invert = false;
  float scale = 1;
  std::vector<float> mean = {};       // one per channel; or one per input element; or empty
  bool rgb = false;                   // the net expects RGB; else BGR
  float range = 255;                  // of the values before the mean; above 0
  std::vector<float> deviation = {};  // one per channel, none is 0; or empty
  ImageFit fit = ImageFit::kStretch;
  // kCrop: the length of the shorter side before the crop; 0: the smallest that covers the input.
  // kReshape: the length of the shorter side.
  int short_side = 0;
  // In place of short_side. kCrop: the size before the crop. kReshape: the lengths of the shorter
  // side, and of the longer one at most.
  int resize_height = 0;
  int resize_width = 0;
  Interpolation interpolation = Interpolation::kLinear;
  int pad = 114;  // kLetterbox: the value of the bars, 0 to 255
  // Classifiers take the mean of the scores of ten crops (TenCrops). Requires: kCrop. Other
  // readers of images take the crop in the middle.
  bool ten_crops = false;

  bool operator==(const Preprocessing&) const = default;
};

// The largest side of Preprocessing.
inline constexpr int kMaxResizedSide = 1 << 14;

// Returns what is wrong for an input of shape C x H x W; empty: nothing. `can_reshape`: the net may
// have kReshape.
std::string FindPreprocessingProblem(const Preprocessing& preprocessing, const Shape& input,
                                     bool can_reshape = false);

// Returns the value of a pixel in channel `channel` of the net; `element` is its index in C x H x
// W.
float PreprocessedValue(const Preprocessing& preprocessing, float pixel, size_t channel,
                        size_t channels, size_t element);

// Where an image lies in an input, in pixels of the input.
struct ImagePlacement {
  int height = 0;  // of the resized image
  int width = 0;
  int top = 0;  // of its first row; negative: rows that the crop leaves out
  int left = 0;
  int input_height = 0;  // of the input
  int input_width = 0;
  double scale = 1;  // of the height; kReshape: of both sides before they are rounded
};

// Computes the placement of an image of height x width. The crop is rounded as in Caffe and OpenCV
// (down); with kAntialias and kAntialiasCubic as in torchvision (half to even). kReshape is that of
// py-faster-rcnn. Requires: no problem; all sides above 0. Throws kInvalidArgument for an image so
// narrow that its resized form would have more than 2^26 pixels.
ImagePlacement PlaceImage(const Preprocessing& preprocessing, int image_height, int image_width,
                          int height, int width);

// Resizes, crops and pads to height x width.
Image FitImage(const Image& image, const Preprocessing& preprocessing, int height, int width);

// Returns the crop of FitImage, those at the four corners, and the mirror images of the five
// (Krizhevsky et al., NIPS 2012). Requires: kCrop.
std::vector<Image> TenCrops(const Image& image, const Preprocessing& preprocessing, int height,
                            int width);

// A range of an axis of the image, 0 to 1, for one of the input.
struct AxisMap {
  double offset = 0;
  double factor = 1;

  double operator()(double position) const { return (position - offset) * factor; }
};

// Return the maps from positions in the input to positions in the image; both are shares of the
// height or width.
AxisMap RowsOfImage(const ImagePlacement& placement, int height);
AxisMap ColumnsOfImage(const ImagePlacement& placement, int width);

// Words of the flags --fit and --interpolation, and of metadata.
ImageFit ParseFit(const std::string& word);                 // throws kInvalidArgument
Interpolation ParseInterpolation(const std::string& word);  // throws kInvalidArgument
const char* ToString(ImageFit fit);
const char* ToString(Interpolation interpolation);

}  // namespace crema
