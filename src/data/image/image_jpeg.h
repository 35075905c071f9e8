// JPEG files by libjpeg-turbo: the pixels that OpenCV gives, which decodes with the same library,
// but also parts and small versions of images, without decoding the rest. Not in builds without it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/shape.h"
#include "data/image/image.h"

namespace crema {

// By its first bytes.
inline bool IsJpeg(std::string_view bytes) { return bytes.starts_with("\xFF\xD8\xFF"); }

// One file in memory. Thread safety: one thread at a time.
class JpegFile {
 public:
  // Reads the header. `bytes` must outlive this object; `name` begins messages. Throws kDataLoss:
  // no JPEG, truncated, or more pixels than a file of this length can have.
  JpegFile(std::string_view bytes, ColorMode mode, std::string name);
  ~JpegFile();
  JpegFile(const JpegFile&) = delete;
  JpegFile& operator=(const JpegFile&) = delete;

  // C x H x W of the decoded image: blue, green, red, or gray.
  Shape shape() const;

  // From now on the image is half, a quarter or an eighth of its size (rounded up): the smallest
  // that is no smaller than height x width. This is faster, but other pixels than those of the
  // whole image resized. Requires: nothing was decoded.
  void ShrinkTowards(int height, int width);

  // Each may be called once, and only one of them; both reuse the memory of `image`. Throw
  // kDataLoss for data so damaged that pixels are lost, as far as they look at it: not below
  // `part`. Requires: `part` is inside. Its pixels are those that decoding the whole image gives.
  void Decode(const ImagePart& part, PackedImage* image);
  void Decode(Image* image);

 private:
  struct State;
  [[noreturn]] void FailHere() const;
  void ReadHeader();
  void CheckSize() const;
  void Start(const ImagePart& stored);
  template <typename Sink>
  void ReadRows(const ImagePart& stored, const Sink& sink);
  void DecodeStored(const ImagePart& stored, PackedImage* image);

  const std::string_view bytes_;
  const ColorMode mode_;
  const std::string name_;
  const std::unique_ptr<State> state_;
};

}  // namespace crema
