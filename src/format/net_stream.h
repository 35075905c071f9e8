// Reads nets of any size from a file, layer by layer.
#pragma once

#include <string>

#include "crema.pb.h"
#include "format/file.h"
#include "format/seal.h"

namespace crema {

struct StreamedNet {
  NetParameter net;    // all that could be read
  std::string damage;  // "is truncated within layer "conv2": ..."; empty: none
};

// Reads the serialised net in a range of a file. Parses each layer as a message of its own, since
// protobuf is limited to 2 GiB; only one layer at a time is in memory twice. A single layer above 2
// GiB counts as damage.
StreamedNet StreamNet(const RandomFile& file, const FileRange& range);

}  // namespace crema
