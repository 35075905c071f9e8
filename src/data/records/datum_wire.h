// The wire form of a Datum, read where it lies: pixels are not copied.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace crema {

struct DatumView {
  int32_t channels = 0;
  int32_t height = 0;
  int32_t width = 0;
  int32_t label = 0;
  bool has_label = false;
  bool encoded = false;
  // The first field that a Datum does not have is a message where it has `channels`: what begins an
  // AnnotatedDatum.
  bool annotated = false;
  std::string_view data;  // in the record
  std::span<const float> float_data;
};

// Accepts what protobuf's own parser accepts, and sees the same in it: unknown fields are passed
// over, and of a field that comes twice the last one counts. Thread safety: one thread at a time.
class DatumParser {
 public:
  // False for what is no Datum. `view` is valid until the next call and as long as `record` lives.
  bool Parse(std::string_view record, DatumView* view);

 private:
  void AppendFloats(std::string_view bytes, DatumView* view);

  std::vector<float> floats_;  // of records that have them unaligned, or in several pieces
};

}  // namespace crema
