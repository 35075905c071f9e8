// Members of a tar archive: ustar, with the long names of GNU tar and pax.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "format/file.h"

namespace crema {

constexpr uint64_t kTarBlock = 512;  // headers and contents begin at multiples of this many bytes

// A file in an archive.
struct TarMember {
  std::string name = {};
  uint64_t header = 0;          // offset of its header
  uint64_t offset = 0;          // of its contents
  uint64_t size = 0;            // bytes
  std::string_view start = {};  // of the contents, up to a block; valid during the call
};

// Calls `visit` for each regular file, in archive order. Reads headers, not contents. Ignores
// folders, links and the like. Throws kDataLoss, naming archive and offset, if it is truncated,
// damaged, compressed or not an archive.
void VisitTar(const RandomFile& file, const std::function<void(const TarMember&)>& visit);

// Returns the header of a regular file, preceded by a long-name header if needed. Independent of
// time and user.
std::string TarHeader(const std::string& name, uint64_t size);

// Returns the end mark of an archive.
std::string TarEnd();

}  // namespace crema
