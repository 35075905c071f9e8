// Compares our JPEG decoder with OpenCV's, and parts with the whole.
#if defined(CREMA_HAVE_OPENCV) && defined(CREMA_HAVE_JPEG)
#include "data/image/image_jpeg.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <string>
#include <vector>

#include "core/rng.h"
#include "data/expect_error.h"
#include "data/image/mat_opencv.h"
#include "data/jpeg_files.h"
#include "format/file.h"

namespace crema {
namespace {

using testing::AllKinds;
using testing::ExpectError;
using testing::JpegKind;
using testing::MakeJpeg;
using testing::Sampled;

constexpr ColorMode kModes[] = {ColorMode::kAsStored, ColorMode::kColor, ColorMode::kGray};

Image ByOpenCv(const std::string& file, ColorMode mode) {
  int flags = cv::IMREAD_UNCHANGED;
  if (mode == ColorMode::kColor) flags = cv::IMREAD_COLOR;
  if (mode == ColorMode::kGray) flags = cv::IMREAD_GRAYSCALE;
  const std::vector<uchar> bytes(file.begin(), file.end());
  Image image;
  SplitPlanes(cv::imdecode(bytes, flags), &image);
  return image;
}

void ExpectSameAsOpenCv(const std::string& file, const std::string& what) {
  for (const ColorMode mode : kModes) {
    const Image expected = ByOpenCv(file, mode);
    Image image;
    DecodeImage(file, mode, what, &image);
    EXPECT_EQ(image.channels, expected.channels) << what;
    EXPECT_EQ(image.height, expected.height) << what;
    EXPECT_EQ(image.width, expected.width) << what;
    EXPECT_TRUE(image.pixels == expected.pixels) << what << ", mode " << static_cast<int>(mode);
  }
}

PackedImage PartOf(const PackedImage& whole, const ImagePart& part) {
  PackedImage cut{whole.channels, part.height, part.width, {}};
  const auto bytes = [&](int pixels) { return static_cast<ptrdiff_t>(pixels) * whole.channels; };
  for (int y = part.top; y < part.top + part.height; ++y) {
    const auto row = whole.pixels.begin() + bytes(y * whole.width + part.left);
    cut.pixels.insert(cut.pixels.end(), row, row + bytes(part.width));
  }
  return cut;
}

PackedImage Decode(const std::string& file, const ImagePart& part, ColorMode mode) {
  PackedImage image;
  JpegFile(file, mode, "jpeg").Decode(part, &image);
  return image;
}

PackedImage DecodeWhole(const std::string& file, ColorMode mode) {
  const Shape shape = JpegFile(file, mode, "jpeg").shape();
  return Decode(file, {0, 0, static_cast<int>(shape[1]), static_cast<int>(shape[2])}, mode);
}

// A little-endian or big-endian EXIF segment with this orientation.
std::string Exif(int orientation, bool big_endian) {
  const auto number = [&](uint32_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) {
      text += static_cast<char>(value >> (8 * (big_endian ? bytes - 1 - i : i)));
    }
    return text;
  };
  const std::string value = number(static_cast<uint32_t>(orientation), 2) + std::string(2, '\0');
  return std::string("Exif\0\0", 6) + (big_endian ? "MM" : "II") + number(42, 2) + number(8, 4) +
         number(2, 2) + number(0x0102, 2) + number(3, 2) + number(1, 4) + number(8, 4) +
         number(0x0112, 2) + number(3, 2) + number(1, 4) + value + number(0, 4);
}

TEST(JpegFile, GivesTheBytesThatOpenCvGives) {
  for (const JpegKind& kind : AllKinds()) {
    for (const auto& [height, width] : {std::pair{1, 1}, {7, 9}, {2, 40}, {64, 48}, {61, 83}}) {
      ExpectSameAsOpenCv(MakeJpeg(height, width, kind),
                         kind.name + " " + std::to_string(height) + "x" + std::to_string(width));
    }
  }
}

TEST(JpegFile, TurnsImagesAsOpenCvDoes) {
  JpegKind kind = Sampled("420", 2, 2);
  for (int orientation = 0; orientation <= 9; ++orientation) {
    for (const bool big_endian : {false, true}) {
      kind.app1 = Exif(orientation, big_endian);
      ExpectSameAsOpenCv(MakeJpeg(37, 50, kind), "orientation " + std::to_string(orientation));
    }
  }
  for (const std::string& app1 : {std::string("http://ns.adobe.com/xap/1.0/"), std::string("Exif"),
                                  Exif(6, false).substr(0, 20), Exif(6, true).substr(0, 36)}) {
    kind.app1 = app1;
    ExpectSameAsOpenCv(MakeJpeg(37, 50, kind), "APP1 of " + std::to_string(app1.size()));
  }
}

// Uses a folder of photographs, if available.
TEST(JpegFile, GivesTheBytesThatOpenCvGivesForPhotographs) {
  const char* folder = std::getenv("CREMA_PHOTOS");  // NOLINT: no other thread
  if (folder == nullptr) GTEST_SKIP() << "CREMA_PHOTOS names no folder of JPEG files";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = ReadFile(entry.path());
    ExpectSameAsOpenCv(file, entry.path());
    const PackedImage whole = DecodeWhole(file, ColorMode::kColor);
    const ImagePart part{whole.height / 3, whole.width / 5, whole.height / 2, whole.width / 2};
    EXPECT_TRUE(Decode(file, part, ColorMode::kColor).pixels == PartOf(whole, part).pixels);
  }
}

TEST(JpegFile, PartsAtAllPlacesAreThoseOfTheWhole) {
  for (const JpegKind& kind : AllKinds()) {
    const std::string file = MakeJpeg(50, 70, kind);
    const PackedImage whole = DecodeWhole(file, ColorMode::kColor);
    ImagePart part{0, 0, 17, 22};
    int wrong = 0;
    for (part.top = 0; part.top <= 50 - part.height; ++part.top) {
      for (part.left = 0; part.left <= 70 - part.width; ++part.left) {
        wrong += Decode(file, part, ColorMode::kColor).pixels != PartOf(whole, part).pixels;
      }
    }
    EXPECT_EQ(wrong, 0) << kind.name;
  }
}

TEST(JpegFile, PartsOfAllSizesAreThoseOfTheWhole) {
  const RandomStream random(1, 2);
  uint64_t draw = 0;
  const auto below = [&](int n) {
    return static_cast<int>(random.Below(draw++, static_cast<uint32_t>(n)));
  };
  for (const JpegKind& kind : AllKinds()) {
    for (const ColorMode mode : {ColorMode::kColor, ColorMode::kGray}) {
      const std::string file = MakeJpeg(143, 210, kind);
      const PackedImage whole = DecodeWhole(file, mode);
      for (int i = 0; i < 100; ++i) {
        ImagePart part{.height = 1 + below(143), .width = 1 + below(210)};
        part.top = below(143 - part.height + 1);
        part.left = below(210 - part.width + 1);
        ASSERT_TRUE(Decode(file, part, mode).pixels == PartOf(whole, part).pixels)
            << kind.name << ": " << part.height << "x" << part.width << " at " << part.top << ", "
            << part.left;
      }
    }
  }
}

TEST(JpegFile, PartsOfTurnedImagesAreThoseOfTheUprightOnes) {
  JpegKind kind = Sampled("420", 2, 2);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    kind.app1 = Exif(orientation, true);
    const std::string file = MakeJpeg(40, 60, kind);
    const PackedImage whole = DecodeWhole(file, ColorMode::kColor);
    EXPECT_EQ(whole.height, orientation < 5 ? 40 : 60);
    const ImagePart part{3, 7, 30, 20};
    EXPECT_TRUE(Decode(file, part, ColorMode::kColor).pixels == PartOf(whole, part).pixels)
        << orientation;
  }
}

TEST(JpegFile, ShrinksToTheSmallestSizeThatIsEnough) {
  const std::string file = MakeJpeg(101, 200, Sampled("420", 2, 2));
  const auto shrunk = [&](int height, int width) {
    JpegFile jpeg(file, ColorMode::kColor, "jpeg");
    jpeg.ShrinkTowards(height, width);
    Image image;
    jpeg.Decode(&image);
    EXPECT_EQ((Shape{image.channels, image.height, image.width}), jpeg.shape());
    return image;
  };
  EXPECT_EQ(shrunk(13, 25).height, 13);  // an eighth, rounded up
  EXPECT_EQ(shrunk(14, 25).height, 26);
  EXPECT_EQ(shrunk(13, 51).width, 100);
  EXPECT_EQ(shrunk(1000, 1000).width, 200);
  Image whole;
  DecodeImage(file, ColorMode::kColor, "jpeg", &whole);
  const Image half = shrunk(50, 100);
  ASSERT_EQ(half.height, 51);
  double difference = 0;
  for (int y = 0; y < 50; ++y) {
    for (int x = 0; x < 100; ++x) {
      const auto at = static_cast<size_t>(2 * y * 200 + 2 * x);
      const double mean = (whole.pixels[at] + whole.pixels[at + 1] + whole.pixels[at + 200] +
                           whole.pixels[at + 201]) /
                          4.0;
      difference += std::abs(mean - half.pixels[static_cast<size_t>(y * 100 + x)]) / 5000;
    }
  }
  EXPECT_LT(difference, 3);
}

TEST(JpegFile, TurnedImagesShrinkByTheirUprightSides) {
  JpegKind kind = Sampled("420", 2, 2);
  kind.app1 = Exif(6, false);
  const std::string file = MakeJpeg(80, 160, kind);
  JpegFile jpeg(file, ColorMode::kColor, "jpeg");
  jpeg.ShrinkTowards(40, 20);
  EXPECT_EQ(jpeg.shape(), (Shape{3, 40, 20}));
}

void ExpectNoImage(const std::string& file, const std::string& message) {
  ExpectError(ErrorCode::kDataLoss, message, [&] {
    Image image;
    DecodeImage(file, ColorMode::kColor, "record 5", &image);
  });
}

TEST(JpegFile, LostPixelsAreAnError) {
  const std::string file = MakeJpeg(64, 64, {});
  std::string marked = file;
  marked.replace(file.size() / 2, 2, "\xFF\xD3");
  ExpectNoImage(marked, "record 5: the JPEG cannot be decoded: Corrupt JPEG data");
  ExpectNoImage(file.substr(0, file.size() / 2) + "\xFF\xD9", "premature end");
  ExpectNoImage(file.substr(0, file.size() / 2), "record 5: the JPEG is truncated");
  ExpectNoImage("\xFF\xD8\xFF\xD9", "cannot be decoded");
}

TEST(JpegFile, OdditiesThatLoseNothingAreNone) {
  std::string file = MakeJpeg(64, 64, {});
  Image plain;
  DecodeImage(file, ColorMode::kColor, "jpeg", &plain);
  file.insert(file.size() - 2, "padding");  // before the end marker
  file += "and after it";
  Image odd;
  DecodeImage(file, ColorMode::kColor, "jpeg", &odd);
  EXPECT_EQ(odd.pixels, plain.pixels);
}

TEST(JpegFile, SizesThatTheFileCannotHoldAreAnErrorBeforeMemoryIsTaken) {
  std::string file = MakeJpeg(64, 64, {});
  const size_t header = file.find("\xFF\xC0");
  ASSERT_NE(header, std::string::npos);
  file.replace(header + 5, 4, "\xFF\xDC\xFF\xDC");
  ExpectNoImage(file, "65500 pixels wide and 65500 high, which its");
}

TEST(JpegFile, EndlessScansAreAnError) {
  JpegKind kind;
  kind.separate_scans = true;
  std::string file = MakeJpeg(16, 16, kind);
  const size_t scan = file.rfind("\xFF\xDA");
  const std::string again = file.substr(scan, file.size() - 2 - scan);
  for (int i = 0; i < 600; ++i) file.insert(scan, again);
  ExpectNoImage(file, "more than 500 scans");
}

}  // namespace
}  // namespace crema
#endif
