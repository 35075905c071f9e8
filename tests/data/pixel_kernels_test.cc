// Compares the vectorised loops with scalar arithmetic.
#include "data/image/pixel_kernels.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace crema {
namespace {

constexpr int kKernelRows = 3;
constexpr int kMargin = 5;  // pixels around the crop

template <typename S>
std::vector<S> KernelPixels(size_t count) {
  std::vector<S> values;
  for (size_t i = 0; i < count; ++i) values.push_back(static_cast<S>(i * 37 % 251));
  return values;
}

// Expected value of (c, y, x) of the crop, by the formula.
template <typename T>
T Expected(double pixel, float mean, T scale) {
  return (static_cast<T>(pixel) - static_cast<T>(mean)) * scale;
}

template <typename S, typename T>
void CheckPlane(int width, bool mean_image, bool mirror) {
  const int stride = width + kMargin;
  const auto pixels = KernelPixels<S>(static_cast<size_t>(kKernelRows * stride));
  const auto means = KernelPixels<float>(pixels.size() + 7);
  std::vector<T> out(static_cast<size_t>(kKernelRows * width));
  ConvertPlane(PlaneRows<S, T>{.pixels = pixels.data(),
                               .mean = mean_image ? means.data() + 7 : nullptr,
                               .stride = stride,
                               .mean_value = static_cast<T>(3.7F),
                               .scale = static_cast<T>(0.3F),
                               .height = kKernelRows,
                               .width = width,
                               .mirror = mirror,
                               .out = out.data()});
  int wrong = 0;
  for (int y = 0; y < kKernelRows; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto at = static_cast<size_t>(y * stride + x);
      const int place = y * width + (mirror ? width - 1 - x : x);
      wrong += out[static_cast<size_t>(place)] !=
               Expected<T>(pixels[at], mean_image ? means[at + 7] : 3.7F, static_cast<T>(0.3F));
    }
  }
  EXPECT_EQ(wrong, 0) << width << (mean_image ? ", mean image" : "") << (mirror ? ", mirror" : "");
}

template <typename T>
void CheckPacked(int channels, int width, bool mean_image, bool mirror) {
  const int row_pixels = width + kMargin;
  const auto pixels =
      KernelPixels<uint8_t>(static_cast<size_t>(kKernelRows * row_pixels * channels));
  const int mean_plane = kKernelRows * row_pixels;
  const auto means = KernelPixels<float>(static_cast<size_t>(3 * mean_plane));
  const float values[] = {1.5F, 100, 7.25F};
  std::vector<T> out(static_cast<size_t>(channels * kKernelRows * width));
  ConvertPacked(PackedRows<T>{.pixels = pixels.data(),
                              .row_bytes = static_cast<ptrdiff_t>(row_pixels) * channels,
                              .channels = channels,
                              .mean = mean_image ? means.data() : nullptr,
                              .mean_stride = row_pixels,
                              .mean_plane = mean_plane,
                              .mean_values = {values[0], values[1], values[2]},
                              .scale = static_cast<T>(0.3F),
                              .height = kKernelRows,
                              .width = width,
                              .mirror = mirror,
                              .out = out.data()});
  int wrong = 0;
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < kKernelRows; ++y) {
      for (int x = 0; x < width; ++x) {
        const int at = y * row_pixels + x;
        const float mean = mean_image ? means[static_cast<size_t>(c * mean_plane + at)] : values[c];
        const int place = (c * kKernelRows + y) * width + (mirror ? width - 1 - x : x);
        wrong +=
            out[static_cast<size_t>(place)] !=
            Expected<T>(pixels[static_cast<size_t>(at * channels + c)], mean, static_cast<T>(0.3F));
      }
    }
  }
  EXPECT_EQ(wrong, 0) << channels << " channels, " << width << (mean_image ? ", mean image" : "")
                      << (mirror ? ", mirror" : "");
}

// Around vector widths, and around the size of pieces.
constexpr int kWidths[] = {1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 224, 511, 512, 513, 1100};

TEST(PixelKernels, PlanesFollowTheFormula) {
  for (const int width : kWidths) {
    for (const bool mean_image : {false, true}) {
      for (const bool mirror : {false, true}) {
        CheckPlane<uint8_t, float>(width, mean_image, mirror);
        CheckPlane<uint8_t, double>(width, mean_image, mirror);
        CheckPlane<float, float>(width, mean_image, mirror);
        CheckPlane<float, double>(width, mean_image, mirror);
      }
    }
  }
}

TEST(PixelKernels, PackedPixelsFollowTheFormula) {
  for (const int width : kWidths) {
    for (const int channels : {1, 3}) {
      for (const bool mean_image : {false, true}) {
        CheckPacked<float>(channels, width, mean_image, false);
        CheckPacked<float>(channels, width, mean_image, true);
        CheckPacked<double>(channels, width, mean_image, false);
        CheckPacked<double>(channels, width, mean_image, true);
      }
    }
  }
}

TEST(PixelKernels, ChannelsAreTakenApart) {
  for (const int width : kWidths) {
    const auto packed = KernelPixels<uint8_t>(static_cast<size_t>(3 * width));
    std::vector<uint8_t> lanes[3];
    for (auto& lane : lanes) lane.resize(static_cast<size_t>(width));
    SplitPixels(packed.data(), width, lanes[0].data(), lanes[1].data(), lanes[2].data());
    for (size_t i = 0; i < packed.size(); ++i) ASSERT_EQ(lanes[i % 3][i / 3], packed[i]);
  }
}

// Pixel (y, x) of channel c is at c * plane + y * row + x * step.
void CheckBytes(int channels, int width, bool planar, bool mirror) {
  const ptrdiff_t step = planar ? 1 : channels;
  const ptrdiff_t row = (width + kMargin) * step;
  const ptrdiff_t plane = planar ? row * kKernelRows : 1;
  const auto pixels = KernelPixels<uint8_t>(static_cast<size_t>(row * kKernelRows * channels));
  const size_t size = static_cast<size_t>(kKernelRows) * static_cast<size_t>(width * channels);
  std::vector<uint8_t> out(size + 1, 0xA5);
  CopyBytes({.pixels = pixels.data(),
             .row_bytes = row,
             .plane = planar ? plane : 0,
             .channels = channels,
             .height = kKernelRows,
             .width = width,
             .mirror = mirror,
             .out = out.data()});
  int wrong = 0;
  for (int y = 0; y < kKernelRows; ++y) {
    for (int x = 0; x < width; ++x) {
      const int place = y * width + (mirror ? width - 1 - x : x);
      for (int c = 0; c < channels; ++c) {
        wrong += out[static_cast<size_t>(place * channels + c)] !=
                 pixels[static_cast<size_t>(c * plane + y * row + x * step)];
      }
    }
  }
  EXPECT_EQ(wrong, 0) << channels << " channels, " << width << (planar ? ", planes" : "")
                      << (mirror ? ", mirror" : "");
  EXPECT_EQ(out[size], 0xA5) << "written after the end";
}

TEST(PixelKernels, BytesAreCopiedAndTurned) {
  for (const int channels : {1, 2, 3, 4, 7}) {
    for (const int width : {1, 2, 15, 16, 33, 224, 1031}) {
      for (const bool mirror : {false, true}) {
        CheckBytes(channels, width, false, mirror);
        CheckBytes(channels, width, true, mirror);
      }
    }
  }
}

}  // namespace
}  // namespace crema
