#include "data/records/datum_wire.h"

#include <bit>
#include <climits>
#include <cstring>
#include <limits>

#include "crema.pb.h"

namespace crema {
namespace {

static_assert(std::endian::native == std::endian::little, "floats are taken as stored");

enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};
constexpr int kMostGroups = 100;  // nesting depth, as in protobuf

// Walks the fields of a message. Each step returns false if the bytes are malformed.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool done() const { return at_ == end_; }

  bool Varint(uint64_t* value) { return ReadVarint(10, value); }

  // The caller rejects numbers and types out of range.
  bool Tag(uint32_t* number, uint32_t* type) {
    uint64_t tag = 0;
    if (!ReadVarint(5, &tag)) return false;
    *number = static_cast<uint32_t>(tag) >> 3;  // drops bits above 32, as protobuf does
    *type = static_cast<uint32_t>(tag) & 7;
    return true;
  }

  bool Bytes(std::string_view* bytes) {
    uint64_t size = 0;
    if (!ReadVarint(5, &size)) return false;
    return Take(size, bytes);
  }

  bool Take(uint64_t size, std::string_view* bytes) {
    if (size > static_cast<uint64_t>(end_ - at_)) return false;
    *bytes = {at_, static_cast<size_t>(size)};
    at_ += size;
    return true;
  }

  // Skips the value of a field. Groups contain fields up to their end mark.
  bool Skip(uint32_t number, uint32_t type, int depth = 0) {
    uint64_t ignored = 0;
    std::string_view bytes;
    if (number == 0) return false;
    switch (type) {
      case kVarint:
        return Varint(&ignored);
      case kFixed64:
        return Take(8, &bytes);
      case kBytes:
        return Bytes(&bytes);
      case kGroup:
        return depth < kMostGroups && SkipGroup(number, depth + 1);
      case kFixed32:
        return Take(4, &bytes);
      default:
        return false;
    }
  }

 private:
  bool ReadVarint(int most_bytes, uint64_t* value) {
    uint64_t sum = 0;
    for (int i = 0; i < most_bytes && at_ != end_; ++i) {
      const auto byte = static_cast<uint8_t>(*at_++);
      sum |= uint64_t{byte & 0x7FU} << (7 * i);
      if (byte < 0x80) {
        *value = sum;
        return true;
      }
    }
    return false;
  }

  bool SkipGroup(uint32_t number, int depth) {
    uint32_t inner = 0;
    uint32_t type = 0;
    while (Tag(&inner, &type)) {
      if (type == kEndGroup) return inner == number;
      if (!Skip(inner, type, depth)) return false;
    }
    return false;
  }

  const char* at_;
  const char* end_;
};

// Numbers of Datum are varints; with another wire type a field is unknown.
int32_t* FindNumber(uint32_t number, DatumView* view) {
  switch (number) {
    case Datum::kChannelsFieldNumber:
      return &view->channels;
    case Datum::kHeightFieldNumber:
      return &view->height;
    case Datum::kWidthFieldNumber:
      return &view->width;
    case Datum::kLabelFieldNumber:
      return &view->label;
    default:
      return nullptr;
  }
}

}  // namespace

bool DatumParser::Parse(std::string_view record, DatumView* view) {
  *view = {};
  floats_.clear();
  if (record.size() > INT_MAX) return false;
  WireReader reader(record);
  bool strange = false;  // saw a field unknown to Datum
  while (!reader.done()) {
    uint32_t number = 0;
    uint32_t type = 0;
    if (!reader.Tag(&number, &type)) return false;
    uint64_t value = 0;
    std::string_view bytes;
    int32_t* field = type == kVarint ? FindNumber(number, view) : nullptr;
    if (field != nullptr) {
      if (!reader.Varint(&value)) return false;
      *field = static_cast<int32_t>(value);
      view->has_label |= field == &view->label;
    } else if (type == kVarint && number == Datum::kEncodedFieldNumber) {
      if (!reader.Varint(&value)) return false;
      view->encoded = value != 0;
    } else if (type == kBytes && number == Datum::kDataFieldNumber) {
      if (!reader.Bytes(&view->data)) return false;
    } else if (type == kBytes && number == Datum::kFloatDataFieldNumber) {
      if (!reader.Bytes(&bytes) || bytes.size() % sizeof(float) != 0) return false;
      AppendFloats(bytes, view);
    } else if (type == kFixed32 && number == Datum::kFloatDataFieldNumber) {
      if (!reader.Take(sizeof(float), &bytes)) return false;
      AppendFloats(bytes, view);
    } else {
      if (!reader.Skip(number, type)) return false;
      const bool known = type == kVarint && number == Datum::kRecordIdFieldNumber;
      if (known || strange) continue;
      strange = true;
      view->annotated = type == kBytes && number == Datum::kChannelsFieldNumber;
    }
  }
  return true;
}

void DatumParser::AppendFloats(std::string_view bytes, DatumView* view) {
  if (bytes.empty()) return;
  const size_t count = bytes.size() / sizeof(float);
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % alignof(float) == 0;
  if (view->float_data.empty() && aligned && count > 1) {
    view->float_data = {reinterpret_cast<const float*>(bytes.data()), count};
    return;
  }
  // A further piece: copies the earlier ones once, then appends to the copy.
  if (floats_.empty()) floats_.assign(view->float_data.begin(), view->float_data.end());
  const size_t before = floats_.size();
  floats_.resize(before + count);
  std::memcpy(floats_.data() + before, bytes.data(), bytes.size());
  view->float_data = floats_;
}

}  // namespace crema
