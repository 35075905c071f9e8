#include "data/image/image_orientation.h"

#include <cstddef>

namespace crema {
namespace {

class TiffReader {
 public:
  explicit TiffReader(std::span<const uint8_t> bytes) : bytes_(bytes) {
    big_endian_ = bytes.size() >= 2 && bytes[0] == 'M';
  }

  // Reads a little- or big-endian number of `count` bytes; 0 if out of range.
  uint32_t Number(size_t at, size_t count) const {
    if (at > bytes_.size() || bytes_.size() - at < count) return 0;
    uint32_t number = 0;
    for (size_t i = 0; i < count; ++i) {
      number = number << 8 | bytes_[at + (big_endian_ ? i : count - 1 - i)];
    }
    return number;
  }
  bool IsTiff() const {
    return bytes_.size() >= 8 && bytes_[0] == bytes_[1] && (bytes_[0] == 'I' || bytes_[0] == 'M') &&
           Number(2, 2) == 42;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool big_endian_ = false;
};

}  // namespace

int FindOrientation(std::span<const uint8_t> tiff) {
  constexpr uint32_t kOrientationTag = 0x0112;
  const TiffReader reader(tiff);
  if (!reader.IsTiff()) return 1;
  const size_t folder = reader.Number(4, 4);
  const size_t entries = reader.Number(folder, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = folder + 2 + 12 * i;
    if (entry + 12 > tiff.size()) return 1;
    if (reader.Number(entry, 2) != kOrientationTag) continue;
    const uint32_t orientation = reader.Number(entry + 8, 2);
    return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 1;
  }
  return 1;
}

void RotateUpright(const PackedImage& stored, int orientation, const ImagePart& part,
                   PackedImage* upright) {
  // Pixel (y, x) of the upright image is the stored pixel at first + y * down + x * right.
  const ptrdiff_t column = stored.channels;
  const ptrdiff_t row = column * stored.width;
  const ptrdiff_t last_column = column * (stored.width - 1);
  const ptrdiff_t last_row = row * (stored.height - 1);
  const bool swap = SwapsSides(orientation);
  // EXIF: the sides of the upright image that the stored rows and columns begin at.
  const bool from_last_row =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_last_column =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const ptrdiff_t row_step = from_last_row ? -row : row;
  const ptrdiff_t column_step = from_last_column ? -column : column;
  const ptrdiff_t first = (from_last_row ? last_row : 0) + (from_last_column ? last_column : 0);
  const ptrdiff_t down = swap ? column_step : row_step;
  const ptrdiff_t right = swap ? row_step : column_step;

  upright->channels = stored.channels;
  upright->height = part.height;
  upright->width = part.width;
  upright->pixels.resize(static_cast<size_t>(part.height) * static_cast<size_t>(part.width) *
                         static_cast<size_t>(stored.channels));
  uint8_t* out = upright->pixels.data();
  for (int y = part.top; y < part.top + part.height; ++y) {
    for (int x = part.left; x < part.left + part.width; ++x) {
      const uint8_t* in = stored.pixels.data() + (first + y * down + x * right);
      for (int c = 0; c < stored.channels; ++c) *out++ = in[c];
    }
  }
}

}  // namespace crema
