#include "common/image_record.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/image/image.h"
#include "format/data_file.h"

namespace crema::tools {
namespace {

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// Lower case, without the dot; jpg for jpeg.
std::string TypeOf(const std::string& extension) {
  const std::string type = Lower(extension.starts_with('.') ? extension.substr(1) : extension);
  return type == "jpeg" ? "jpg" : type;
}

Image Resized(Image image, const ImageRecordOptions& options) {
  int height = options.height;
  int width = options.width;
  if (options.short_side > 0) {
    const int64_t shorter = std::min(image.height, image.width);
    // Rounds to the nearest pixel.
    const auto scaled = [&](int64_t side) {
      return static_cast<int>((side * options.short_side * 2 + shorter) / (shorter * 2));
    };
    height = scaled(image.height);
    width = scaled(image.width);
  }
  const bool as_it_is = height == 0 || (height == image.height && width == image.width);
  return as_it_is ? std::move(image) : Resize(image, height, width);
}

Shape SizeOf(const Image& image) { return {image.channels, image.height, image.width}; }

void SetSize(const Image& image, Datum* datum) {
  datum->set_channels(image.channels);
  datum->set_height(image.height);
  datum->set_width(image.width);
}

}  // namespace

ImageRecord MakeImageRecord(const std::string& path, int label, const std::string& description,
                            const ImageRecordOptions& options) {
  std::string bytes;
  try {
    bytes = ReadDataFile(path);
  } catch (const Error& error) {
    Fail(error.code(), StrCat(description, ": ", error.problems().front().message));
  }
  Image image;
  DecodeImage(bytes, options.gray ? ColorMode::kGray : ColorMode::kColor, description, &image);
  ImageRecord record;
  record.file_size = SizeOf(image);
  const bool resizes = options.height > 0 || options.short_side > 0;
  if (resizes) image = Resized(std::move(image), options);

  record.size = SizeOf(image);

  Datum& datum = record.datum;
  datum.set_label(label);
  const std::string own_type = TypeOf(std::filesystem::path(path).extension().string());
  const std::string type = options.encode_type.empty() ? own_type : TypeOf(options.encode_type);
  if (!options.encoded) {
    SetSize(image, &datum);
    datum.set_data(image.pixels.data(), image.pixels.size());
  } else if (!resizes && !options.gray && options.quality == 0 && type == own_type) {
    datum.set_data(std::move(bytes));  // the size stays unset, as in Caffe
    datum.set_encoded(true);
  } else {
    if (type.empty()) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat(description, ": the name has no extension that says how to encode the image; ",
                  "give --encode_type"));
    }
    SetSize(image, &datum);
    datum.set_data(EncodeImage(image, type, options.quality));
    datum.set_encoded(true);
  }
  return record;
}

std::string ImageKey(uint64_t index, const std::string& name) {
  char digits[24];
  std::snprintf(digits, sizeof(digits), "%08lu_", index);
  return digits + name;
}

}  // namespace crema::tools
