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
#include "format/file.h"
#include "format/prototxt.h"
#include "format/sniff.h"

namespace crema {

bool ParseBinary(std::string_view bytes, google::protobuf::MessageLite* message) {
#if GOOGLE_PROTOBUF_VERSION < 4000000
  // Debug builds of protobuf report non-UTF-8 strings on stderr.
  const google::protobuf::LogSilencer silencer;
#endif
  if (bytes.size() > kMaxFileBytes) return false;
  google::protobuf::io::ArrayInputStream array(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream stream(&array);
  stream.SetTotalBytesLimit(std::numeric_limits<int>::max());
  return message->ParsePartialFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

void CheckIsBinary(std::string_view bytes, const std::string& path, std::string_view expected) {
  const Content content = Sniff(bytes);
  if (content == Content::kBinary) return;
  // A message of a few short strings looks like text.
  const std::string_view start = Trim(bytes.substr(0, 1));
  if (content == Content::kText && bytes.size() < 64 && start.empty()) return;
  std::string message = DescribeWrongContent(content, expected);
  if (content == Content::kText) message = DescribeWrongText(std::string(bytes), expected);
  Fail(ErrorCode::kDataLoss, message, {.file = path});
}

}  // namespace crema
