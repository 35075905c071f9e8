// Records that hold a Datum: raw pixels or an image file, and a label.
#pragma once

#include <string>
#include <string_view>

#include "crema.pb.h"
#include "data/image/image.h"
#include "data/records/datum_wire.h"

namespace crema {

// Returns the key with unprintable bytes escaped as \x0a.
std::string PrintableKey(std::string_view key);

// Returns the name for messages: `record "00000012" of 'train_lmdb'`, with unprintable bytes
// escaped.
std::string RecordName(const std::string& data_set, std::string_view key);

// Parses in place and decodes, reusing its memory. Thread safety: one thread at a time.
class DatumReader {
 public:
  explicit DatumReader(std::string data_set, ColorMode mode = ColorMode::kAsStored)
      : data_set_(std::move(data_set)), mode_(mode) {}

  // The result is valid until the next call and while `value` lives. As in Caffe, the colour mode
  // does not apply to raw pixels. Throws kDataLoss, naming data set and key: not a Datum,
  // inconsistent sizes, an image that cannot be decoded.
  PixelView Read(std::string_view key, std::string_view value);
  // Two steps, for callers that decode the image file themselves: FindFile returns it or nothing,
  // then Pixels returns the rest.
  std::string_view FindFile(std::string_view key, std::string_view value);
  PixelView Pixels(std::string_view key) { return View(key); }
  // Like Read for a parsed Datum, which is consumed.
  PixelView Take(std::string_view key, Datum* datum);
  int label() const { return view_.label; }  // of the last record

 private:
  PixelView View(std::string_view key);
  PixelView ReadRaw(std::string_view key) const;

  const std::string data_set_;
  const ColorMode mode_;
  DatumParser parser_;
  DatumView view_;  // of the last record
  Datum datum_;     // of the last Take
  Image image_;
};

}  // namespace crema
