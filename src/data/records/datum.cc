#include "data/records/datum.h"

#include "core/error.h"
#include "core/printable.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {

std::string PrintableKey(std::string_view key) { return Printable(key); }

std::string RecordName(const std::string& data_set, std::string_view key) {
  return StrCat("record \"", PrintableKey(key), "\" of '", data_set, "'");
}

std::string_view DatumReader::FindFile(std::string_view key, std::string_view value) {
  if (!parser_.Parse(value, &view_)) {
    Fail(ErrorCode::kDataLoss,
         StrCat(RecordName(data_set_, key), " is not a Datum (", value.size(), " bytes)"));
  }
  return view_.encoded ? view_.data : std::string_view();
}

PixelView DatumReader::Read(std::string_view key, std::string_view value) {
  FindFile(key, value);
  return View(key);
}

PixelView DatumReader::Take(std::string_view key, Datum* datum) {
  datum_.Swap(datum);
  view_ = {.channels = datum_.channels(),
           .height = datum_.height(),
           .width = datum_.width(),
           .label = datum_.label(),
           .encoded = datum_.encoded(),
           .data = datum_.data(),
           .float_data = {datum_.float_data().data(), size_t(datum_.float_data_size())}};
  return View(key);
}

PixelView DatumReader::View(std::string_view key) {
  if (!view_.encoded) return ReadRaw(key);
  DecodeImage(view_.data, mode_, RecordName(data_set_, key), &image_);
  return {image_.channels, image_.height, image_.width, image_.pixels.data(), nullptr};
}

PixelView DatumReader::ReadRaw(std::string_view key) const {
  if (view_.annotated) {
    Fail(ErrorCode::kDataLoss,
         StrCat(RecordName(data_set_, key),
                " is an AnnotatedDatum (an image with boxes), not a Datum: read this data set with "
                "a layer of type AnnotatedData"));
  }
  PixelView view{view_.channels, view_.height, view_.width, nullptr, nullptr};
  if (view.channels <= 0 || view.height <= 0 || view.width <= 0) {
    Fail(ErrorCode::kDataLoss,
         StrCat(RecordName(data_set_, key), " is not a Datum with pixels: its size is ",
                view.channels, "x", view.height, "x", view.width));
  }
  const bool bytes = !view_.data.empty();
  const uint64_t expected =
      uint64_t{static_cast<uint32_t>(view.height)} * static_cast<uint32_t>(view.width);
  const uint64_t got = bytes ? view_.data.size() : view_.float_data.size();
  // Checks in this order to avoid overflow.
  if (got % expected != 0 || got / expected != static_cast<uint64_t>(view.channels)) {
    Fail(ErrorCode::kDataLoss,
         StrCat(RecordName(data_set_, key), " says ", view.channels, "x", view.height, "x",
                view.width, " but holds ", got, bytes ? " bytes" : " floats"));
  }
  if (bytes) {
    view.bytes = reinterpret_cast<const uint8_t*>(view_.data.data());
  } else {
    view.floats = view_.float_data.data();
  }
  return view;
}

}  // namespace crema
