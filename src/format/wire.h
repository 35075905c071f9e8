// Parses protobuf's binary format without protobuf's log.
#pragma once

#include <google/protobuf/message_lite.h>

#include <string>
#include <string_view>

namespace crema {

// Returns false if the bytes are not such a message. Tolerates missing required fields.
bool ParseBinary(std::string_view bytes, google::protobuf::MessageLite* message);

// Throws kDataLoss for a file that does not look like binary protobuf. `bytes` may be only the
// start of the file. `expected` has its article, as "a weights file".
void CheckIsBinary(std::string_view bytes, const std::string& path, std::string_view expected);

}  // namespace crema
