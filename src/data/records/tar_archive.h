// The members of a tar archive: ustar, with the long names of GNU tar and pax.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "format/file.h"

namespace crema {

constexpr uint64_t kTarBlock = 512;  // bytes: headers and contents begin at multiples of it

// A file in an archive.
struct TarMember {
  std::string name = {};
  uint64_t header = 0;          // offset of its header
  uint64_t offset = 0;          // of its contents
  uint64_t size = 0;            // bytes
  std::string_view start = {};  // of the contents, at most a block; valid during the call
};

// Calls `visit` for each ordinary file, in the order of the archive. Reads headers, not contents.
// Folders, links and the like are passed over. Throws kDataLoss, naming the archive and the offset,
// for one that is cut short, damaged, compressed or no archive.
void VisitTar(const RandomFile& file, const std::function<void(const TarMember&)>& visit);

// The header of an ordinary file, with a long name in front where it needs one. Nothing in it
// depends on time or user.
std::string TarHeader(const std::string& name, uint64_t size);

// What ends an archive.
std::string TarEnd();

}  // namespace crema
