// Sums over images, exact for bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"
#include "data/records/datum.h"

namespace crema::tools {

// Sums of one image by channel.
struct ChannelSums {
  std::vector<uint64_t> bytes;        // of byte pixels
  std::vector<uint64_t> squares;      //
  std::vector<double> floats;         // of other pixels
  std::vector<double> float_squares;  //
};
ChannelSums SumChannels(const PixelView& image);

// Sums over all images. Byte sums have 64 bits and no rounding error, unlike Caffe, which adds
// floats. Thread safety: one thread at a time.
class ImageSums {
 public:
  // `channels_only`: computes no mean image, so that sizes may differ.
  explicit ImageSums(bool channels_only) : channels_only_(channels_only) {}

  // Throws kDataLoss for an image of another size than the first; messages begin with `name`.
  void Add(const PixelView& image, const ChannelSums& sums, const std::string& name);

  uint64_t count() const { return count_; }
  const Shape& first_size() const { return size_; }
  bool one_size() const { return one_size_; }

  // Returns the mean in the form of Caffe's command: num 1, channels, height, width, data.
  // Requires: at least one image, and not `channels_only`.
  BlobProto MeanImage() const;
  // Moments over all pixels of all images.
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
  uint64_t pixels_ = 0;  // per channel, over all images
  ChannelSums channels_;
  std::vector<uint64_t> byte_image_;
  std::vector<double> float_image_;
};

}  // namespace crema::tools
