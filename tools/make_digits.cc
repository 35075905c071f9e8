// make_digits: draws a data set of handwritten-looking digits, so that training needs no download.
#include <gflags/gflags.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <numbers>
#include <opencv2/core.hpp>
#include <opencv2/imgproc.hpp>
#include <string>
#include <vector>

#include "common/tool.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/image/codecs_opencv.h"
#include "data/pipeline/shuffle.h"
#include "data/records/lmdb.h"
#include "format/file.h"

DEFINE_int32(count, 10000, "[Run] number of digits to draw");
DEFINE_uint64(seed, 1, "[Run] another seed, other digits; the same seed, the same digits");
DEFINE_string(png, "",
              "[Output FOLDER] also write the first digits to this folder, as <index>_<label>.png");
DEFINE_int32(png_count, 10, "[Output] number of digits that --png writes");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema make_digits [flags] OUTPUT\n"
    "\n"
    "Draws a data set of digits. They are white on black, 28x28 pixels, in several fonts,\n"
    "warped and noisy, the same number of each class, and are written to the new LMDB OUTPUT.\n"
    "\n"
    "Examples:\n"
    "crema make_digits --count=10000 --seed=1 digits_train_lmdb\n"
    "crema make_digits --count=1000 --seed=2 --png=pictures digits_test_lmdb";

constexpr int kSide = 28;
constexpr int kCanvas = 4 * kSide;  // drawn large, then averaged down
constexpr int kGrid = 5;            // points of the elastic warp along one side

// Random numbers of one digit, in sequence. Uses two streams, since RandomStream::Gaussian consumes
// four elements at once.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t digit)
      : uniform_(seed, HashName("digit"), digit), gaussian_(seed, HashName("noise"), digit) {}
  double Uniform(double low, double high) {
    return low + (high - low) * uniform_.Uniform(next_uniform_++);
  }
  int Below(int n) {
    return static_cast<int>(uniform_.Below(next_uniform_++, static_cast<uint32_t>(n)));
  }
  bool Chance(double probability) { return Uniform(0, 1) < probability; }
  double Gaussian(double deviation) { return deviation * gaussian_.Gaussian(next_gaussian_++); }

 private:
  RandomStream uniform_;
  RandomStream gaussian_;
  uint64_t next_uniform_ = 0;
  uint64_t next_gaussian_ = 0;
};

// The upright digit in the middle of the canvas.
cv::Mat DrawGlyph(int label, Dice* dice) {
  constexpr std::array kFonts = {cv::FONT_HERSHEY_SIMPLEX,        cv::FONT_HERSHEY_PLAIN,
                                 cv::FONT_HERSHEY_DUPLEX,         cv::FONT_HERSHEY_COMPLEX,
                                 cv::FONT_HERSHEY_TRIPLEX,        cv::FONT_HERSHEY_COMPLEX_SMALL,
                                 cv::FONT_HERSHEY_SCRIPT_SIMPLEX, cv::FONT_HERSHEY_SCRIPT_COMPLEX};
  int font = kFonts[static_cast<size_t>(dice->Below(static_cast<int>(kFonts.size())))];
  if (dice->Chance(0.3)) font |= cv::FONT_ITALIC;
  const int thickness = 4 + dice->Below(8);
  const double height = dice->Uniform(0.62, 0.78) * kCanvas;

  const std::string text(1, static_cast<char>('0' + label));
  int baseline = 0;
  const cv::Size unit = cv::getTextSize(text, font, 1, 1, &baseline);
  const double scale = (height - thickness) / unit.height;
  const cv::Size size = cv::getTextSize(text, font, scale, thickness, &baseline);
  cv::Mat canvas = cv::Mat::zeros(kCanvas, kCanvas, CV_8U);
  const cv::Point corner((kCanvas - size.width) / 2, (kCanvas + size.height) / 2);
  cv::putText(canvas, text, corner, font, scale, cv::Scalar(255), thickness, cv::LINE_AA);
  return canvas;
}

// Rows of the matrix from warped to upright coordinates, both about the middle of the canvas.
struct Affine {
  double xx, xy, yx, yy;  // source offset = matrix * target offset
  double dx, dy;          // target shift, in canvas pixels
};

Affine DrawAffine(Dice* dice) {
  const double angle = dice->Uniform(-15, 15) * std::numbers::pi / 180;
  const double shear = dice->Uniform(-0.25, 0.25);
  const double wide = dice->Uniform(0.75, 1.15);
  const double high = dice->Uniform(0.8, 1.15);
  const double dx = dice->Uniform(-2, 2) * kCanvas / kSide;
  const double dy = dice->Uniform(-2, 2) * kCanvas / kSide;
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  return {(c - shear * s) / wide, (s + shear * c) / wide, -s / high, c / high, dx, dy};
}

// Smooth random offsets, in canvas pixels.
cv::Mat DrawElastic(Dice* dice) {
  const double strength = dice->Uniform(1, 4);
  cv::Mat coarse(kGrid, kGrid, CV_32FC2);
  for (int y = 0; y < kGrid; ++y) {
    for (int x = 0; x < kGrid; ++x) {
      const double across = dice->Gaussian(strength);
      const double down = dice->Gaussian(strength);
      coarse.at<cv::Vec2f>(y, x) = {static_cast<float>(across), static_cast<float>(down)};
    }
  }
  cv::Mat offsets;
  cv::resize(coarse, offsets, cv::Size(kCanvas, kCanvas), 0, 0, cv::INTER_CUBIC);
  return offsets;
}

cv::Mat Warp(const cv::Mat& glyph, Dice* dice) {
  const Affine affine = DrawAffine(dice);
  cv::Mat map = DrawElastic(dice);
  const double middle = (kCanvas - 1) / 2.0;
  for (int y = 0; y < kCanvas; ++y) {
    auto* row = map.ptr<cv::Vec2f>(y);
    for (int x = 0; x < kCanvas; ++x) {
      const double u = x - middle - affine.dx;
      const double v = y - middle - affine.dy;
      row[x][0] += static_cast<float>(middle + affine.xx * u + affine.xy * v);
      row[x][1] += static_cast<float>(middle + affine.yx * u + affine.yy * v);
    }
  }
  cv::Mat warped;
  cv::remap(glyph, warped, map, cv::noArray(), cv::INTER_LINEAR, cv::BORDER_CONSTANT);
  return warped;
}

// A stroke near the border that belongs to no digit.
void DrawClutter(cv::Mat* canvas, Dice* dice) {
  const int x = dice->Below(kCanvas);
  const int y =
      dice->Chance(0.5) ? dice->Below(kCanvas / 8) : kCanvas - 1 - dice->Below(kCanvas / 8);
  const int across = dice->Below(kCanvas / 2) - kCanvas / 4;
  const int down = dice->Below(kCanvas / 8) - kCanvas / 16;
  const int thickness = 2 + dice->Below(5);
  const bool upright = dice->Chance(0.5);
  const cv::Point from = upright ? cv::Point(y, x) : cv::Point(x, y);
  const cv::Point step = upright ? cv::Point(down, across) : cv::Point(across, down);
  cv::line(*canvas, from, from + step, cv::Scalar(200), thickness, cv::LINE_AA);
}

// The final digit: 28x28, 8 bits.
cv::Mat DrawDigit(uint64_t seed, uint64_t index, int label) {
  Dice dice(seed, index);
  cv::Mat canvas = Warp(DrawGlyph(label, &dice), &dice);
  if (dice.Chance(0.1)) DrawClutter(&canvas, &dice);
  const double blur = dice.Uniform(0.5, 3.5);
  cv::GaussianBlur(canvas, canvas, cv::Size(), blur);
  cv::Mat small;
  cv::resize(canvas, small, cv::Size(kSide, kSide), 0, 0, cv::INTER_AREA);

  const double white = dice.Uniform(140, 255);
  const double black = dice.Uniform(0, 40);
  const double noise = dice.Uniform(0, 20);
  for (int y = 0; y < kSide; ++y) {
    auto* row = small.ptr<uint8_t>(y);
    for (int x = 0; x < kSide; ++x) {
      const double value = black + (white - black) * row[x] / 255 + dice.Gaussian(noise);
      row[x] = cv::saturate_cast<uint8_t>(value);
    }
  }
  return small;
}

// Each ten digits contain every class once, in random order.
int LabelOf(uint64_t seed, uint64_t index) {
  const RandomStream random(seed, HashName("labels"), index / 10);
  return static_cast<int>(Permutation(10, random)[index % 10]);
}

void WritePng(const cv::Mat& digit, const std::string& folder, int index, int label) {
  const std::string path = StrCat(folder, "/", index, "_", label, ".png");
  std::vector<uint8_t> file;
  if (!LoadedImageCodecs().Encode(".png", digit, &file, {})) {
    Fail(ErrorCode::kIoFailure, StrCat("the image '", path, "' cannot be encoded"));
  }
  WriteFileAtomically(path, {reinterpret_cast<const char*>(file.data()), file.size()});
}

void MakeFolder(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    Fail(ErrorCode::kIoFailure,
         StrCat("cannot make the folder '", folder, "': ", failure.message()));
  }
}

void Make(const std::string& output) {
  if (!FLAGS_png.empty()) MakeFolder(FLAGS_png);
  LmdbWriter writer(output);
  Datum datum;
  datum.set_channels(1);
  datum.set_height(kSide);
  datum.set_width(kSide);
  std::string value;
  std::array<char, 16> key{};
  for (int i = 0; i < FLAGS_count; ++i) {
    const auto index = static_cast<uint64_t>(i);
    const int label = LabelOf(FLAGS_seed, index);
    const cv::Mat digit = DrawDigit(FLAGS_seed, index, label);
    datum.set_data(digit.data, digit.total());
    datum.set_label(label);
    datum.SerializeToString(&value);
    std::snprintf(key.data(), key.size(), "%08d", i);
    writer.Put(key.data(), value);
    if (!FLAGS_png.empty() && i < FLAGS_png_count) WritePng(digit, FLAGS_png, i, label);
  }
  writer.Close();
  std::cout << "Drew " << FLAGS_count << " digits to " << output << "\n";
}

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("expected OUTPUT, got ", arguments.size(), " arguments; see --help"));
  }
  if (FLAGS_count < 1 || FLAGS_count > 99999999) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--count is ", FLAGS_count, ", but must be 1 to 99999999"));
  }
  cv::setNumThreads(1);  // several threads are slower for such small images
  Make(arguments[0]);
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
