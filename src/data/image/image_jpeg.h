// Decodes JPEG files with libjpeg-turbo. Pixels equal OpenCV's, which uses the same library. Can
// also decode parts and small versions without decoding the rest. Excluded from builds without
// libjpeg-turbo.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/shape.h"
#include "data/image/image.h"

namespace crema {

// Checks the first bytes.
inline bool IsJpeg(std::string_view bytes) { return bytes.starts_with("\xFF\xD8\xFF"); }

// One file in memory. Thread safety: one thread at a time.
class JpegFile {
 public:
  // Reads the header. `bytes` must outlive this object; messages begin with `name`. Throws
  // kDataLoss: not a JPEG, truncated, or more pixels than a file of this length can have.
  JpegFile(std::string_view bytes, ColorMode mode, std::string name);
  ~JpegFile();
  JpegFile(const JpegFile&) = delete;
  JpegFile& operator=(const JpegFile&) = delete;

  // Returns the shape (C x H x W) of the decoded image: BGR or gray.
  Shape shape() const;

  // Reduces the image to a half, a quarter or an eighth of its size (rounded up): the smallest that
  // is no smaller than height x width. Faster than decoding the whole image and resizing it, but
  // with other pixels. Requires: nothing was decoded.
  void ShrinkTowards(int height, int width);

  // Only one of the two may be called, and only once; both reuse the memory of `image`. Throw
  // kDataLoss if the data read is so damaged that pixels are lost; nothing below `part` is read.
  // Requires: `part` is inside. Its pixels equal those of the whole decoded image.
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

// Returns the EXIF orientation: how to rotate the stored image so that it is upright.
//
// Returns the orientation from a TIFF structure (the body of EXIF): 1 (upright) to 8. Returns 1 if
// it is missing or invalid.
int FindOrientation(std::span<const uint8_t> tiff);

// Returns true if height and width of the stored and the upright image are exchanged.
inline bool SwapsSides(int orientation) { return orientation >= 5; }

// Extracts `part` of the upright image. Requires: it is inside; orientation 1 to 8.
void RotateUpright(const PackedImage& stored, int orientation, const ImagePart& part,
                   PackedImage* upright);

}  // namespace crema
