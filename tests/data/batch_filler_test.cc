// Converts image files to samples: partial decoding gives the same values as decoding the whole
// image.
#if defined(CREMA_HAVE_OPENCV) && defined(CREMA_HAVE_JPEG)
#include "data/batches/batch_filler.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/image_files.h"
#include "data/jpeg_files.h"
#include "data/parse_message.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using testing::ExpectError;
using testing::JpegKind;
using testing::MakeJpeg;
using testing::Parse;
using testing::Pattern;
using testing::Sampled;

constexpr int kFileHeight = 48;
constexpr int kFileWidth = 66;

std::string WriteFileMean(const TempDir& temp, int channels) {
  BlobProto blob;
  blob.set_num(1);
  blob.set_channels(channels);
  blob.set_height(kFileHeight);
  blob.set_width(kFileWidth);
  for (int i = 0; i < channels * kFileHeight * kFileWidth; ++i) {
    blob.add_data(static_cast<float>(i % 97));
  }
  return temp.Write("mean", blob.SerializeAsString());
}

std::string NoName() { return "a file"; }

// Both ways, from image files, for several samples.
template <typename T>
void Check(const std::string& file, const TransformationParameter& param, ColorMode mode,
           DType dtype) {
  const auto transformer = std::make_shared<const Transformer>(param, TRAIN, "data");
  Image image;
  DecodeImage(file, mode, "a file", &image);
  const PixelView view{image.channels, image.height, image.width, image.pixels.data(), nullptr};
  const Shape sample = transformer->OutputShape(view.shape());
  BatchFiller filler({.sample = sample, .dtype = dtype}, transformer);
  std::vector<T> whole(static_cast<size_t>(sample.count()));
  std::vector<T> part(whole.size());
  for (uint64_t ordinal = 0; ordinal < 25; ++ordinal) {
    filler.Write(view, ordinal, NoName, reinterpret_cast<std::byte*>(whole.data()));
    filler.WriteEncoded(file, mode, ordinal, NoName, reinterpret_cast<std::byte*>(part.data()));
    ASSERT_TRUE(part == whole) << param.ShortDebugString() << ", sample " << ordinal;
  }
}

std::vector<std::string> EncodedFiles() {
  JpegKind progressive = Sampled("", 2, 2);
  progressive.progressive = true;
  JpegKind gray;
  gray.components = 1;
  return {MakeJpeg(kFileHeight, kFileWidth, Sampled("", 1, 1)),
          MakeJpeg(kFileHeight, kFileWidth, Sampled("", 2, 2)),
          MakeJpeg(kFileHeight, kFileWidth, progressive),
          MakeJpeg(kFileHeight, kFileWidth, gray),
          testing::Encode(Pattern(kFileHeight, kFileWidth, 3)),
          testing::Encode(Pattern(kFileHeight, kFileWidth, 1))};
}

TEST(BatchFiller, FilesGiveTheValuesOfTheWholeImage) {
  for (const std::string& file : EncodedFiles()) {
    for (const std::string transform :
         {"", "mirror: true", "crop_size: 31", "crop_h: 20 crop_w: 64 mirror: true scale: 0.5",
          "crop_size: 48 mirror: true mean_value: 104.5 scale: 0.017",
          "crop_size: 1 mean_value: 3"}) {
      for (const ColorMode mode : {ColorMode::kAsStored, ColorMode::kColor, ColorMode::kGray}) {
        Check<float>(file, Parse<TransformationParameter>(transform), mode, DType::kF32);
      }
      Check<double>(file, Parse<TransformationParameter>(transform), ColorMode::kColor,
                    DType::kF64);
    }
  }
}

TEST(BatchFiller, MeanImagesAreReadWhereTheCropLies) {
  TempDir temp;
  TransformationParameter param =
      Parse<TransformationParameter>("crop_size: 30 mirror: true scale: 0.25");
  param.set_mean_file(WriteFileMean(temp, 3));
  for (const std::string& file : EncodedFiles()) {
    Check<float>(file, param, ColorMode::kColor, DType::kF32);
    Check<double>(file, param, ColorMode::kColor, DType::kF64);
  }
  param.set_mean_file(WriteFileMean(temp, 1));
  for (const std::string& file : EncodedFiles()) {
    Check<float>(file, param, ColorMode::kGray, DType::kF32);
  }
}

TEST(BatchFiller, OneMeanForEachChannelOfAFile) {
  for (const std::string& file : EncodedFiles()) {
    Check<float>(
        file,
        Parse<TransformationParameter>("crop_size: 9 mean_value: 1 mean_value: 20 mean_value: 300"),
        ColorMode::kColor, DType::kF32);
  }
}

TEST(BatchFiller, FilesThatDoNotFitNameThemselves) {
  BatchFiller filler({.sample = {3, 40, 40}},
                     std::make_shared<const Transformer>(
                         Parse<TransformationParameter>("crop_size: 40"), TRAIN, "data"));
  std::vector<float> sample(3 * 40 * 40);
  const auto write = [&](const std::string& file) {
    filler.WriteEncoded(
        file, ColorMode::kAsStored, 0, [] { return std::string("'x.jpg'"); },
        reinterpret_cast<std::byte*>(sample.data()));
  };
  JpegKind gray;
  gray.components = 1;
  ExpectError(ErrorCode::kDataLoss, "'x.jpg': crop_size is 40, but the image is 30 high",
              [&] { write(MakeJpeg(30, 50, {})); });
  ExpectError(ErrorCode::kDataLoss, "'x.jpg' is 1x40x40", [&] { write(MakeJpeg(50, 50, gray)); });
  ExpectError(ErrorCode::kDataLoss, "'x.jpg': the JPEG is truncated",
              [&] { write(MakeJpeg(50, 50, {}).substr(0, 300)); });
  ExpectError(ErrorCode::kDataLoss, "'x.jpg': ", [&] { write("no image"); });
  write(MakeJpeg(50, 50, {}));
}

}  // namespace
}  // namespace crema
#endif
