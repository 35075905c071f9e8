// Records that hold image files.
#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>

#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/image_files.h"
#include "data/records/datum.h"

namespace crema {
namespace {

using testing::Encode;
using testing::ExpectError;

std::string EncodedRecord(const std::string& file) {
  Datum datum;
  datum.set_encoded(true);
  datum.set_data(file);
  datum.set_label(3);
  return datum.SerializeAsString();
}

// 2 rows, 3 columns; pixel (y, x) is blue 10y+x, green 100+10y+x, red 200+10y+x.
cv::Mat ColourImage() {
  cv::Mat image(2, 3, CV_8UC3);
  for (int y = 0; y < 2; ++y) {
    for (int x = 0; x < 3; ++x) {
      const auto base = static_cast<uchar>(10 * y + x);
      image.at<cv::Vec3b>(y, x) = {base, static_cast<uchar>(100 + base),
                                   static_cast<uchar>(200 + base)};
    }
  }
  return image;
}

TEST(EncodedDatum, ChannelsComeOneAfterTheOtherInBlueGreenRed) {
  DatumReader reader("set");
  const PixelView view = reader.Read("k", EncodedRecord(Encode(ColourImage(), ".png")));
  ASSERT_EQ(view.shape(), (Shape{3, 2, 3}));
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 2; ++y) {
      for (int x = 0; x < 3; ++x) {
        EXPECT_EQ(view.bytes[(c * 2 + y) * 3 + x], 100 * c + 10 * y + x);
      }
    }
  }
  EXPECT_EQ(reader.label(), 3);
}

TEST(EncodedDatum, GrayStaysGrayUnlessColourIsForced) {
  const cv::Mat gray(2, 3, CV_8UC1, cv::Scalar(77));
  const std::string value = EncodedRecord(Encode(gray, ".png"));
  EXPECT_EQ(DatumReader("set").Read("k", value).channels, 1);
  DatumReader colour("set", ColorMode::kColor);
  const PixelView view = colour.Read("k", value);
  EXPECT_EQ(view.channels, 3);
  EXPECT_EQ(view.bytes[17], 77);
}

TEST(EncodedDatum, ColourBecomesGrayWhenForced) {
  DatumReader reader("set", ColorMode::kGray);
  const PixelView view = reader.Read("k", EncodedRecord(Encode(ColourImage(), ".png")));
  ASSERT_EQ(view.shape(), (Shape{1, 2, 3}));
  // 0.114 blue + 0.587 green + 0.299 red, rounded.
  EXPECT_NEAR(view.bytes[0], 0.587 * 100 + 0.299 * 200, 1);
}

TEST(EncodedDatum, SixteenBitsAreRefused) {
  const cv::Mat deep(2, 3, CV_16UC1, cv::Scalar(1000));
  DatumReader reader("set");
  ExpectError(ErrorCode::kDataLoss, "more than 8 bits",
              [&] { reader.Read("k", EncodedRecord(Encode(deep, ".png"))); });
}

TEST(EncodedDatum, TruncatedFilesNameTheKey) {
  cv::Mat noise(64, 64, CV_8UC3);
  cv::randu(noise, 0, 255);
  DatumReader reader("set");
  for (const std::string extension : {".jpg", ".png"}) {
    const std::string file = Encode(noise, extension);
    EXPECT_EQ(reader.Read("whole", EncodedRecord(file)).height, 64);
    for (const size_t bytes : {file.size() - 1, file.size() - 2, file.size() / 2}) {
      if (extension == ".png" && bytes + 4 >= file.size()) continue;  // within the last checksum
      ExpectError(ErrorCode::kDataLoss, "record \"cut\" of 'set': the ",
                  [&] { reader.Read("cut", EncodedRecord(file.substr(0, bytes))); });
    }
  }
}

TEST(EncodedDatum, WhatIsNoImageIsDataLoss) {
  DatumReader reader("set");
  ExpectError(ErrorCode::kDataLoss, "cannot be decoded",
              [&] { reader.Read("k", EncodedRecord("<html>")); });
  ExpectError(ErrorCode::kDataLoss, "0 bytes", [&] { reader.Read("k", EncodedRecord("")); });
}

}  // namespace
}  // namespace crema
#endif
