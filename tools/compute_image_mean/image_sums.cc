#include "compute_image_mean/image_sums.h"

#include <cmath>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema::tools {
namespace {

template <typename T>
void AddAll(const std::vector<T>& from, std::vector<T>* to) {
  if (to->size() < from.size()) to->resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) (*to)[i] += from[i];
}

template <typename Pixel, typename Sum>
void AddPixels(const Pixel* pixels, size_t count, std::vector<Sum>* sums) {
  sums->resize(count);
  for (size_t i = 0; i < count; ++i) (*sums)[i] += pixels[i];
}

size_t PlaneOf(const PixelView& image) {
  return static_cast<size_t>(image.height) * static_cast<size_t>(image.width);
}

// Returns element `i` of a span that may be shorter.
template <typename T>
long double At(const std::vector<T>& values, size_t i) {
  return i < values.size() ? static_cast<long double>(values[i]) : 0.0L;
}

}  // namespace

ChannelSums SumChannels(const PixelView& image) {
  ChannelSums sums;
  const size_t plane = PlaneOf(image);
  for (size_t c = 0; c < static_cast<size_t>(image.channels); ++c) {
    uint64_t bytes = 0;
    uint64_t squares = 0;
    double floats = 0;
    double float_squares = 0;
    for (size_t i = c * plane; i < (c + 1) * plane; ++i) {
      if (image.bytes != nullptr) {
        const uint64_t v = image.bytes[i];
        bytes += v;
        squares += v * v;
      } else {
        const double v = image.floats[i];
        floats += v;
        float_squares += v * v;
      }
    }
    sums.bytes.push_back(bytes);
    sums.squares.push_back(squares);
    sums.floats.push_back(floats);
    sums.float_squares.push_back(float_squares);
  }
  return sums;
}

void ImageSums::CheckSize(const Shape& size, const std::string& name) {
  if (count_ == 0) {
    size_ = size;
    first_ = name;
  }
  if (size == size_) return;
  one_size_ = false;
  if (channels_only_ && size[0] == size_[0]) return;
  Fail(ErrorCode::kDataLoss,
       StrCat(name, " is ", ToString(size), " (channels x height x width), but the first, ", first_,
              ", is ", ToString(size_), ": ",
              size[0] == size_[0] ? "--channels_only computes the means of channels alone"
                                  : "images of one data set need as many channels"));
}

void ImageSums::Add(const PixelView& image, const ChannelSums& sums, const std::string& name) {
  CheckSize(image.shape(), name);
  ++count_;
  pixels_ += PlaneOf(image);
  AddAll(sums.bytes, &channels_.bytes);
  AddAll(sums.squares, &channels_.squares);
  AddAll(sums.floats, &channels_.floats);
  AddAll(sums.float_squares, &channels_.float_squares);
  if (channels_only_) return;
  const size_t count = PlaneOf(image) * static_cast<size_t>(image.channels);
  if (image.bytes != nullptr) {
    AddPixels(image.bytes, count, &byte_image_);
  } else {
    AddPixels(image.floats, count, &float_image_);
  }
}

BlobProto ImageSums::MeanImage() const {
  CREMA_CHECK(count_ > 0 && !channels_only_);
  BlobProto mean;
  mean.set_num(1);
  mean.set_channels(static_cast<int>(size_[0]));
  mean.set_height(static_cast<int>(size_[1]));
  mean.set_width(static_cast<int>(size_[2]));
  const auto count = static_cast<long double>(count_);
  for (size_t i = 0; i < static_cast<size_t>(size_.count()); ++i) {
    mean.add_data(static_cast<float>((At(byte_image_, i) + At(float_image_, i)) / count));
  }
  return mean;
}

std::vector<ImageSums::Moments> ImageSums::Channels() const {
  std::vector<Moments> moments;
  const auto pixels = static_cast<long double>(pixels_);
  for (size_t c = 0; c < channels_.bytes.size(); ++c) {
    const long double sum = At(channels_.bytes, c) + At(channels_.floats, c);
    const long double squares = At(channels_.squares, c) + At(channels_.float_squares, c);
    const long double mean = sum / pixels;
    const long double variance = std::max(0.0L, squares / pixels - mean * mean);
    moments.push_back({static_cast<double>(mean), static_cast<double>(std::sqrt(variance))});
  }
  return moments;
}

}  // namespace crema::tools
