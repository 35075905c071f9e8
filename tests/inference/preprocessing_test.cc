// Sizes of images and where they lie in the input.
#include "inference/preprocessing.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace crema {
namespace {

void ExpectPlace(const ImagePlacement& place, int height, int width, int top, int left) {
  EXPECT_EQ(place.height, height);
  EXPECT_EQ(place.width, width);
  EXPECT_EQ(place.top, top);
  EXPECT_EQ(place.left, left);
}

TEST(Preprocessing, PlacesImages) {
  const Preprocessing stretched;
  ExpectPlace(PlaceImage(stretched, 50, 100, 32, 24), 32, 24, 0, 0);
  const Preprocessing boxed{.fit = ImageFit::kLetterbox};
  ExpectPlace(PlaceImage(boxed, 50, 100, 32, 32), 16, 32, 8, 0);
  ExpectPlace(PlaceImage(boxed, 100, 50, 32, 24), 32, 16, 0, 4);
  ExpectPlace(PlaceImage(boxed, 1, 1000, 32, 32), 1, 32, 15, 0);
  const Preprocessing covering{.fit = ImageFit::kCrop};
  ExpectPlace(PlaceImage(covering, 50, 100, 32, 32), 32, 64, 0, -16);
  ExpectPlace(PlaceImage(covering, 100, 50, 32, 24), 48, 24, -8, 0);
  const Preprocessing sized{.fit = ImageFit::kCrop, .resize_height = 40, .resize_width = 33};
  ExpectPlace(PlaceImage(sized, 7, 9, 32, 32), 40, 33, -4, 0);
}

// The sizes of _get_image_blob in py-faster-rcnn.
TEST(Preprocessing, AReshapedInputHasTheSizeOfTheImage) {
  const auto expect = [](const Preprocessing& p, int height, int width, int input_height,
                         int input_width, double scale) {
    const ImagePlacement place = PlaceImage(p, height, width, 224, 224);
    ExpectPlace(place, input_height, input_width, 0, 0);
    EXPECT_EQ(place.input_height, input_height);
    EXPECT_EQ(place.input_width, input_width);
    EXPECT_EQ(place.scale, scale);
  };
  const Preprocessing both{.fit = ImageFit::kReshape, .resize_height = 600, .resize_width = 1000};
  expect(both, 375, 500, 600, 800, 1.6);
  expect(both, 500, 333, 901, 600, 600.0 / 333);
  expect(both, 480, 960, 500, 1000, 1000.0 / 960);
  expect(both, 1, 4000, 1, 1000, 0.25);
  const Preprocessing one{.fit = ImageFit::kReshape, .short_side = 600};
  expect(one, 480, 960, 600, 1200, 1.25);
  EXPECT_THROW(PlaceImage(one, 1, 60000, 224, 224), Error);
  const Shape input{3, 224, 224};
  EXPECT_EQ(FindPreprocessingProblem(both, input, true), "");
  EXPECT_EQ(FindPreprocessingProblem(one, input, true), "");
  EXPECT_NE(FindPreprocessingProblem(one, input).find("needs a net that takes the size"),
            std::string::npos);
  // A mean image would be read beyond its end.
  Preprocessing mean = both;
  mean.mean.assign(static_cast<size_t>(input.count()), 1);
  EXPECT_NE(FindPreprocessingProblem(mean, input, true).find("give 3 means of channels"),
            std::string::npos);
  mean.mean.resize(3);
  EXPECT_EQ(FindPreprocessingProblem(mean, input, true), "");
  for (const Preprocessing& p :
       {Preprocessing{.fit = ImageFit::kReshape},
        Preprocessing{.fit = ImageFit::kReshape, .resize_height = 600, .resize_width = 500},
        Preprocessing{.fit = ImageFit::kReshape, .resize_width = 500},
        Preprocessing{.fit = ImageFit::kReshape, .short_side = 1 << 15}}) {
    EXPECT_NE(FindPreprocessingProblem(p, input, true).find("needs a resize"), std::string::npos);
  }
}

// torchvision rounds the middle half to even, Caffe and OpenCV down.
TEST(Preprocessing, RoundsTheCropAsTheLibraryOfItsInterpolation) {
  Preprocessing p{.fit = ImageFit::kCrop, .short_side = 35};
  ExpectPlace(PlaceImage(p, 35, 37, 32, 32), 35, 37, -1, -2);
  p.interpolation = Interpolation::kAntialias;
  ExpectPlace(PlaceImage(p, 35, 37, 32, 32), 35, 37, -2, -2);
}

TEST(Preprocessing, MapsPositionsBackToTheImage) {
  const ImagePlacement boxed = PlaceImage({.fit = ImageFit::kLetterbox}, 50, 100, 32, 32);
  const AxisMap rows = RowsOfImage(boxed, 32);
  EXPECT_DOUBLE_EQ(rows(0.25), 0);  // the first row of the image
  EXPECT_DOUBLE_EQ(rows(0.5), 0.5);
  EXPECT_DOUBLE_EQ(rows(0.75), 1);
  EXPECT_DOUBLE_EQ(ColumnsOfImage(boxed, 32)(0.3), 0.3);
  const ImagePlacement cropped = PlaceImage({.fit = ImageFit::kCrop}, 50, 100, 32, 32);
  EXPECT_DOUBLE_EQ(ColumnsOfImage(cropped, 32)(0), 0.25);
  EXPECT_DOUBLE_EQ(ColumnsOfImage(cropped, 32)(1), 0.75);
}

TEST(Preprocessing, SizesThatNoImageFitsAreRefused) {
  const Shape input{3, 224, 224};
  EXPECT_EQ(FindPreprocessingProblem({.fit = ImageFit::kCrop, .short_side = 8192}, input), "");
  for (const Preprocessing& p :
       {Preprocessing{.fit = ImageFit::kCrop, .short_side = 10000},
        Preprocessing{.fit = ImageFit::kCrop, .resize_height = 16384, .resize_width = 16384}}) {
    EXPECT_NE(FindPreprocessingProblem(p, input).find("is more than 67108864 pixels"),
              std::string::npos);
  }
}

TEST(Preprocessing, AVeryNarrowImageIsRefused) {
  const Preprocessing p{.fit = ImageFit::kCrop, .short_side = 256};
  EXPECT_THROW(PlaceImage(p, 1, 60000, 224, 224), Error);
  Image tall{.channels = 1, .height = 1 << 20, .width = 1, .pixels = {}};
  tall.pixels.resize(size_t{1} << 20);
  EXPECT_THROW(ResizeAntialiased(tall, 224, 224, false), Error);
}

}  // namespace
}  // namespace crema
