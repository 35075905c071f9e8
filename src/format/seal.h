// The checksum of the files that we write. Field 1000 (seal_head) stands before the serialised
// message and field 1001 (seal_tail) behind it; both hold the length and the CRC-32 of the bytes in
// between. To Caffe they are unknown fields, which it skips.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace crema {

inline constexpr size_t kSealBytes = 17;  // of the head, and of the tail

struct SealParts {
  std::string head;
  std::string tail;
};

SealParts SealOf(std::string_view body);
// Head, body and tail.
std::string Seal(std::string_view body);

// The message within a sealed file, after checking it; a view into `bytes`. A file without seals
// is one of Caffe's and comes back whole. Throws kDataLoss, naming `path`: truncated (how many
// bytes of how many), altered, or with one seal only. Any flipped bit and any truncation is found.
std::string_view Unseal(std::string_view bytes, const std::string& path);

// As Unseal, of a file that is not in memory: where in it the message is. `crc` computes the CRC-32
// of a range of its bytes.
struct FileRange {
  uint64_t begin = 0;
  uint64_t size = 0;
};
using RangeCrc = std::function<uint32_t(const FileRange&)>;
// `start` are the first bytes, as many as there are up to kSealBytes; `end` the last, up to twice
// that; `size` is that of the file.
FileRange CheckSeals(std::string_view start, std::string_view end, uint64_t size,
                     const RangeCrc& crc, const std::string& path);

// CRC-32 as zlib computes it; `running` is that of the bytes before.
uint32_t Crc32(std::string_view bytes, uint32_t running = 0);

}  // namespace crema
