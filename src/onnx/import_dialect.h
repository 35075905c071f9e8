// Nets of layers that Caffe 1.0 or its SSD fork read.
#pragma once

#include <string>

#include "crema.pb.h"

namespace crema {

enum class CaffeDialect {
  kCaffe,  // BVLC Caffe, the tag 1.0: without Clip, Swish and round_mode, which came in 2018
  kSsd,    // the SSD fork: with Permute too
};

// Returns the dialect of the name "caffe" or "ssd". Throws kInvalidArgument for another one.
CaffeDialect ParseCaffeDialect(const std::string& name);

// Replaces layers that the dialect lacks by layers that compute the same, if it has such. Names of
// blobs are kept. Requires: a net that can be planned. Throws kUnsupported with a problem for each
// layer that cannot go, under the name of its node; `path` is the file for messages.
void ConvertToDialect(CaffeDialect dialect, const std::string& path, NetParameter* net);

}  // namespace crema
