#include "format/wire.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/common.h>
#if GOOGLE_PROTOBUF_VERSION < 4000000
#include <google/protobuf/stubs/logging.h>
#endif

#include <limits>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "format/sniff.h"

namespace crema {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::CodedInputStream;

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// One field at the top level of a message.
struct WireField {
  uint32_t number = 0;
  uint64_t begin = 0;  // of its contents
  uint64_t size = 0;   // as it says itself; it may reach beyond the end
  bool valid = false;
};

WireField NextField(CodedInputStream* stream) {
  WireField field;
  const uint32_t tag = stream->ReadTag();
  field.number = tag >> 3;
  if (field.number == 0) return field;
  uint64_t varint = 0;
  switch (tag & 7) {
    case kVarint:
      field.valid = stream->ReadVarint64(&varint);
      break;
    case kFixed64:
    case kFixed32:
      field.size = (tag & 7) == kFixed64 ? 8 : 4;
      field.valid = true;
      break;
    case kBytes:
      field.valid = stream->ReadVarint64(&field.size);
      break;
    default:
      break;
  }
  field.begin = static_cast<uint64_t>(stream->CurrentPosition());
  return field;
}

// The name in the bytes of a layer, even if they are cut short.
template <typename Layer>
std::string NameIn(std::string_view bytes) {
  Layer layer;
  ParseBinary(bytes, &layer);
  return layer.name();
}

std::string LayerName(const WireField& field, std::string_view contents) {
  if (field.number == NetParameter::kLayerFieldNumber) return NameIn<LayerParameter>(contents);
  if (field.number == NetParameter::kLayersFieldNumber) return NameIn<V1LayerParameter>(contents);
  return "";
}

bool IsLayer(const WireField& field) {
  return field.number == NetParameter::kLayerFieldNumber ||
         field.number == NetParameter::kLayersFieldNumber;
}

std::string After(const std::string& last_layer) {
  return last_layer.empty() ? " before the first layer"
                            : StrCat(" after layer \"", last_layer, "\"");
}

}  // namespace

bool ParseBinary(std::string_view bytes, google::protobuf::MessageLite* message) {
#if GOOGLE_PROTOBUF_VERSION < 4000000
  // In debug builds it reports strings that are not UTF-8 on stderr.
  const google::protobuf::LogSilencer silencer;
#endif
  if (bytes.size() > kMaxFileBytes) return false;
  ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  CodedInputStream stream(&array);
  stream.SetTotalBytesLimit(std::numeric_limits<int>::max());
  return message->ParsePartialFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

std::string DescribeDamagedNet(std::string_view bytes) {
  ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  CodedInputStream stream(&array);
  std::string last_layer;
  while (static_cast<size_t>(stream.CurrentPosition()) < bytes.size()) {
    const WireField field = NextField(&stream);
    const bool ran_out = static_cast<size_t>(stream.CurrentPosition()) >= bytes.size();
    if (!field.valid) {
      return StrCat(ran_out ? "is truncated" : "is not a weights file, or damaged",
                    After(last_layer));
    }
    const std::string_view contents = bytes.substr(field.begin, field.size);
    if (field.size > bytes.size() - field.begin) {
      const std::string name = LayerName(field, contents);
      return StrCat("is truncated",
                    name.empty() ? After(last_layer) : StrCat(" within layer \"", name, "\""),
                    ": it has ", bytes.size(), " bytes, and at least ", field.begin + field.size,
                    " are expected");
    }
    if (IsLayer(field)) {
      LayerParameter layer;
      V1LayerParameter old_layer;
      const bool is_new = field.number == NetParameter::kLayerFieldNumber;
      const bool whole = is_new ? ParseBinary(contents, &layer) : ParseBinary(contents, &old_layer);
      if (!whole) return "is not a weights file, or damaged" + After(last_layer);
      last_layer = is_new ? layer.name() : old_layer.name();
    }
    stream.Skip(static_cast<int>(field.size));
  }
  return "is not a weights file, or damaged";
}

void CheckIsBinary(std::string_view bytes, const std::string& path, std::string_view expected) {
  const Content content = Sniff(bytes);
  if (content == Content::kBinary) return;
  // A message of a few short strings looks like text.
  const std::string_view start = Trim(bytes.substr(0, 1));
  if (content == Content::kText && bytes.size() < 64 && start.empty()) return;
  std::string message = DescribeWrongContent(content, expected);
  if (content == Content::kText) {
    message += bytes.find('{') == std::string_view::npos
                   ? ": give the binary file"
                   : " (a prototxt?): give the binary file, such as a .caffemodel";
  }
  Where where;
  where.file = path;
  Fail(ErrorCode::kDataLoss, message, where);
}

}  // namespace crema
