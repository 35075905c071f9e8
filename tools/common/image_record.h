// Image files to Datums, as Caffe's convert_imageset makes them.
#pragma once

#include <string>

#include "core/shape.h"
#include "crema.pb.h"
#include "data/image/image.h"

namespace crema::tools {

struct ImageRecordOptions {
  bool gray = false;
  int height = 0;           // with width: resize to this size; 0: as they are
  int width = 0;            //
  int short_side = 0;       // resize so that the shorter side has this length; 0: not
  bool encoded = false;     // keep image files, not pixels
  std::string encode_type;  // of image files; empty: that of the file
  int quality = 0;          // of JPEG and WebP; 0: that of the library
};

// A Datum and the size of its image: channels, height, width.
struct ImageRecord {
  Datum datum;
  Shape size;
  Shape file_size;  // before it was resized
};

// Reads and decodes the file, so that a record never holds a broken image. `description` begins
// messages. Throws kNotFound, kIoFailure, kDataLoss, kInvalidArgument (a type that cannot be
// written). Thread safety: any number of threads.
ImageRecord MakeImageRecord(const std::string& path, int label, const std::string& description,
                            const ImageRecordOptions& options);

// The key of Caffe: eight digits, "_", the name.
std::string ImageKey(uint64_t index, const std::string& name);

}  // namespace crema::tools
