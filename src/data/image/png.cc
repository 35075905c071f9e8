#include "data/image/png.h"

#include <zlib.h>

#include <string_view>

#include "core/error.h"

namespace crema {
namespace {

void AppendNumber(uint32_t value, std::string* out) {
  for (int shift = 24; shift >= 0; shift -= 8) *out += static_cast<char>(value >> shift & 0xFF);
}

void AppendChunk(std::string_view type, std::string_view body, std::string* out) {
  AppendNumber(static_cast<uint32_t>(body.size()), out);
  const size_t begin = out->size();
  *out += type;
  *out += body;
  const auto* bytes = reinterpret_cast<const Bytef*>(out->data() + begin);
  AppendNumber(static_cast<uint32_t>(crc32(0, bytes, static_cast<uInt>(out->size() - begin))), out);
}

std::string Deflate(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string packed(size, '\0');
  const int status = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()),
                               static_cast<uLong>(bytes.size()), Z_BEST_COMPRESSION);
  CREMA_CHECK(status == Z_OK);
  packed.resize(size);
  return packed;
}

}  // namespace

std::string EncodePng(const Picture& picture) {
  const auto stride = static_cast<size_t>(picture.width) * static_cast<size_t>(picture.channels);
  const auto height = static_cast<size_t>(picture.height);
  CREMA_CHECK(stride * height > 0 && picture.pixels.size() == stride * height);
  std::string rows;
  for (size_t y = 0; y < height; ++y) {
    rows += '\0';  // no filter
    rows.append(reinterpret_cast<const char*>(picture.pixels.data()) + y * stride, stride);
  }
  std::string header;
  AppendNumber(static_cast<uint32_t>(picture.width), &header);
  AppendNumber(static_cast<uint32_t>(picture.height), &header);
  header += '\x08';  // bits per channel
  const bool indexed = !picture.palette.empty();
  header += indexed ? '\x03' : picture.channels == 3 ? '\x02' : '\0';  // or gray
  header.append(3, '\0');  // deflate, filters by row, not interlaced
  std::string png = "\x89PNG\r\n\x1a\n";
  AppendChunk("IHDR", header, &png);
  if (indexed) {
    std::string colors;
    for (const auto& color : picture.palette) colors.append(color.begin(), color.end());
    AppendChunk("PLTE", colors, &png);
  }
  AppendChunk("IDAT", Deflate(rows), &png);
  AppendChunk("IEND", "", &png);
  return png;
}

}  // namespace crema
