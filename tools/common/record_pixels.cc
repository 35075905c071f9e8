#include "common/record_pixels.h"

#include <climits>

#include "core/error.h"
#include "core/strings.h"

namespace crema::tools {

bool LooksAnnotated(std::string_view value) {
  constexpr char kFirstFieldIsMessage = 0x0A;  // number 1, length-delimited
  return value.starts_with(kFirstFieldIsMessage);
}

std::optional<OwnedRecord> RecordPass::Next() {
  if (next_ == count()) return std::nullopt;
  const KeyedRecord record = reader_->Next();
  return OwnedRecord{next_++, std::string(record.key), std::string(record.value)};
}

PixelView RecordPixels::Read(std::string_view key, std::string_view value) {
  if (!LooksAnnotated(value)) return reader_.Read(key, value);
  const bool parsed = value.size() <= INT_MAX &&
                      annotated_.ParseFromArray(value.data(), static_cast<int>(value.size()));
  if (!parsed) {
    Fail(ErrorCode::kDataLoss, StrCat(RecordName(data_set_, key), " is not an AnnotatedDatum (",
                                      value.size(), " bytes)"));
  }
  return reader_.Take(key, annotated_.mutable_datum());
}

}  // namespace crema::tools
