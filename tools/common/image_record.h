// Converts image files to Datums, like Caffe's convert_imageset.
#pragma once

#include <string>

#include "core/shape.h"
#include "crema.pb.h"
#include "data/image/image.h"

namespace crema::tools {

struct ImageRecordOptions {
  bool gray = false;
  int height = 0;           // set together with width; 0: keep the size
  int width = 0;            //
  int short_side = 0;       // resize the shorter side to this; 0: keep
  bool encoded = false;     // keep the image file instead of pixels
  std::string encode_type;  // format of image files; empty: unchanged
  int quality = 0;          // for JPEG and WebP; 0: the library's default
};

// A Datum and the size of its image: channels, height, width.
struct ImageRecord {
  Datum datum;
  Shape size;
  Shape file_size;  // before resizing
};

// Reads and decodes the file, so that a record never holds a damaged image. Messages begin with
// `description`. Throws kNotFound, kIoFailure, kDataLoss, kInvalidArgument (an unsupported type).
// Thread safety: any number of threads.
ImageRecord MakeImageRecord(const std::string& path, int label, const std::string& description,
                            const ImageRecordOptions& options);

// Returns Caffe's key: eight digits, "_", the name.
std::string ImageKey(uint64_t index, const std::string& name);

}  // namespace crema::tools
