// Checksum of the files that we write. Field 1000 (seal_head) precedes the serialised message and
// field 1001 (seal_tail) follows it; both hold the length and the CRC-32 of the bytes in between.
// Caffe skips them as unknown fields.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "crema.pb.h"

namespace crema {

inline constexpr size_t kSealBytes = 17;  // size of the head, and of the tail

struct SealParts {
  std::string head;
  std::string tail;
};

SealParts SealOf(std::string_view body);
// Returns head, body and tail.
std::string Seal(std::string_view body);

// Verifies a sealed file and returns the message within, a view into `bytes`. Returns a file
// without seals, which is Caffe's, whole. Throws kDataLoss, naming `path`, if it is truncated
// (with both sizes), altered, or has one seal only. Detects any flipped bit and any truncation.
std::string_view Unseal(std::string_view bytes, const std::string& path);

// Like Unseal for a file that is not in memory: returns the range of the message. `crc` computes
// the CRC-32 of a range of the file.
struct FileRange {
  uint64_t begin = 0;
  uint64_t size = 0;
};
using RangeCrc = std::function<uint32_t(const FileRange&)>;
// `start` has the first kSealBytes bytes, or fewer if the file is shorter; `end` the last 2 *
// kSealBytes; `size` is the file size.
FileRange CheckSeals(std::string_view start, std::string_view end, uint64_t size,
                     const RangeCrc& crc, const std::string& path);

// Returns the CRC-32 as in zlib; `running` is the sum of the preceding bytes.
uint32_t Crc32(std::string_view bytes, uint32_t running = 0);

// Seals and writes atomically. Drops seals in the message itself. Throws kUnsupported above 2 GiB,
// kIoFailure.
void WriteSealed(const NetParameter& net, const std::string& path);
void WriteSealed(const SolverState& state, const std::string& path);

}  // namespace crema
