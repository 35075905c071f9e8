// Limits of a single request.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crema::server {

struct RequestLimits {
  size_t header_bytes = size_t{16} << 10;   // request line and header fields together
  size_t body_bytes = size_t{64} << 20;     // per request
  size_t buffered_bytes = size_t{1} << 30;  // bodies of all requests together
  int json_depth = 16;
  size_t tensors = 256;                     // inputs, and as many outputs
  size_t axes = 16;                         // per tensor
  int64_t elements = int64_t{1} << 24;      // all tensors of a request
  int64_t images = 4096;                    // elements of BYTES; the largest --max_batch
  size_t image_bytes = size_t{16} << 20;    // encoded image
  int64_t image_pixels = int64_t{1} << 26;  // decoded image
  int64_t pixels = int64_t{1} << 28;        // all decoded images of a request
};

}  // namespace crema::server
