// Messages in protobuf's binary form, parsed without protobuf's log.
#pragma once

#include <google/protobuf/message_lite.h>

#include <string>
#include <string_view>

namespace crema {

// False if the bytes are not such a message. Fields that are required but missing are let pass.
bool ParseBinary(std::string_view bytes, google::protobuf::MessageLite* message);

// Throws kDataLoss for a file that is no binary protobuf at all, by its looks. `bytes` may be only
// the first of them. `expected` has its article, as "a weights file".
void CheckIsBinary(std::string_view bytes, const std::string& path, std::string_view expected);

}  // namespace crema
