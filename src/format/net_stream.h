// Nets of any size from a file, a layer at a time.
#pragma once

#include <string>

#include "crema.pb.h"
#include "format/file.h"
#include "format/seal.h"

namespace crema {

struct StreamedNet {
  NetParameter net;    // as far as it could be read
  std::string damage;  // what is wrong, "is truncated within layer "conv2": ..."; empty: nothing
};

// Reads the serialised net in a range of a file. Protobuf takes 2 GiB at most, so each layer is a
// message of its own; at any time only one of them is in memory twice. A single layer of more than
// 2 GiB counts as damage.
StreamedNet StreamNet(const RandomFile& file, const FileRange& range);

}  // namespace crema
