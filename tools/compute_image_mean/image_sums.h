// Sums over images, exact where they are bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"
#include "data/records/datum.h"

namespace crema::tools {

// Of one image, by channel.
struct ChannelSums {
  std::vector<uint64_t> bytes;        // of pixels that are bytes
  std::vector<uint64_t> squares;      //
  std::vector<double> floats;         // of pixels that are not
  std::vector<double> float_squares;  //
};
ChannelSums SumChannels(const PixelView& image);

// Over all images. Sums of bytes are 64 bits wide, so that no image is lost to rounding, unlike in
// Caffe, which adds floats. Thread safety: one thread at a time.
class ImageSums {
 public:
  // `channels_only`: no mean image, so that sizes may differ.
  explicit ImageSums(bool channels_only) : channels_only_(channels_only) {}

  // Throws kDataLoss for an image of another size than the first; `name` begins the message.
  void Add(const PixelView& image, const ChannelSums& sums, const std::string& name);

  uint64_t count() const { return count_; }
  const Shape& first_size() const { return size_; }
  bool one_size() const { return one_size_; }

  // As Caffe's command writes it: num 1, channels, height, width, data. Requires: an image, and not
  // `channels_only`.
  BlobProto MeanImage() const;
  // Over all pixels of all images.
  struct Moments {
    double mean = 0;
    double deviation = 0;
  };
  std::vector<Moments> Channels() const;

 private:
  void CheckSize(const Shape& size, const std::string& name);

  const bool channels_only_;
  uint64_t count_ = 0;
  Shape size_;
  bool one_size_ = true;
  std::string first_;
  uint64_t pixels_ = 0;  // of a channel, in all images
  ChannelSums channels_;
  std::vector<uint64_t> byte_image_;
  std::vector<double> float_image_;
};

}  // namespace crema::tools
