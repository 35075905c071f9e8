// Messages in protobuf's binary form: parsing without protobuf's log, and what is wrong with a
// broken one.
#pragma once

#include <google/protobuf/message_lite.h>

#include <string>
#include <string_view>

namespace crema {

// False if the bytes are not such a message. Fields that are required but missing are let pass.
bool ParseBinary(std::string_view bytes, google::protobuf::MessageLite* message);

// Of bytes that ParseBinary has refused for a NetParameter: whether they are cut short or damaged,
// and at which layer: "is truncated within layer \"conv2\" ...".
std::string DescribeDamagedNet(std::string_view bytes);

// Throws kInvalidArgument or kDataLoss for a file that is no binary protobuf at all, by its looks.
// `expected` has its article, as "a weights file".
void CheckIsBinary(std::string_view bytes, const std::string& path, std::string_view expected);

}  // namespace crema
