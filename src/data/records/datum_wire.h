// Parses the wire form of a Datum in place, without copying pixels.
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
  // The first unknown field is a message at the number of `channels`: the start of an
  // AnnotatedDatum.
  bool annotated = false;
  std::string_view data;  // refers to the record
  std::span<const float> float_data;
};

// Accepts the same input as protobuf's parser with the same result: ignores unknown fields, and the
// last of several values of a field wins. Thread safety: one thread at a time.
class DatumParser {
 public:
  // Returns false if `record` is not a Datum. `view` is valid until the next call and while
  // `record` lives.
  bool Parse(std::string_view record, DatumView* view);

 private:
  void AppendFloats(std::string_view bytes, DatumView* view);

  std::vector<float> floats_;  // copy of unaligned or split floats
};

}  // namespace crema
