// Records of a data set that hold a Datum: pixels, raw or as an image file, and a label.
#pragma once

#include <string>
#include <string_view>

#include "crema.pb.h"
#include "data/image/image.h"
#include "data/records/datum_wire.h"

namespace crema {

// A key with \x0a and the like for what cannot be printed.
std::string PrintableKey(std::string_view key);

// How messages call a record: `record "00000012" of 'train_lmdb'`. Unprintable bytes are escaped.
std::string RecordName(const std::string& data_set, std::string_view key);

// Parses where the record lies, and decodes, reusing its memory. Thread safety: one thread at a
// time.
class DatumReader {
 public:
  explicit DatumReader(std::string data_set, ColorMode mode = ColorMode::kAsStored)
      : data_set_(std::move(data_set)), mode_(mode) {}

  // Valid until the next call, and as long as `value` lives. As in Caffe, the colour mode is not
  // applied to raw pixels. Throws kDataLoss (not a Datum, sizes that do not fit, an image that
  // cannot be decoded), naming the data set and the key.
  PixelView Read(std::string_view key, std::string_view value);
  // In two steps: the image file inside, for those who decode it themselves, or nothing, and then
  // Pixels gives the rest.
  std::string_view FindFile(std::string_view key, std::string_view value);
  PixelView Pixels(std::string_view key) { return View(key); }
  // The same as Read for a Datum that is there already; takes its contents.
  PixelView Take(std::string_view key, Datum* datum);
  int label() const { return view_.label; }  // of the record that was read last

 private:
  PixelView View(std::string_view key);
  PixelView ReadRaw(std::string_view key) const;

  const std::string data_set_;
  const ColorMode mode_;
  DatumParser parser_;
  DatumView view_;  // of the record that was read last
  Datum datum_;     // that was taken last
  Image image_;
};

}  // namespace crema
