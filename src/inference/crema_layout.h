// Offsets in a .crema file; see docs/crema_file.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "crema_file.pb.h"
#include "format/sniff.h"

namespace crema::crema_layout {

inline constexpr std::string_view kMagic = kCremaMagic;
inline constexpr size_t kFormatAt = 8;       // uint32
inline constexpr size_t kChecksumAt = 12;    // uint32: CRC-32 of all other bytes
inline constexpr size_t kSizeAt = 16;        // uint64: size of the file
inline constexpr size_t kHeaderSizeAt = 24;  // uint64
inline constexpr size_t kHeaderAt = 64;      // preceded by zeros
inline constexpr uint64_t kAlignment = 64;
inline constexpr uint64_t kMostHeaderBytes = uint64_t{1} << 28;

constexpr uint64_t Aligned(uint64_t offset) {
  return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

// Visits weights, recorded inputs, recorded outputs. `Header` may be const.
template <typename Header, typename Body>
void ForEachTensor(Header& header, Body&& body) {
  if constexpr (std::is_const_v<Header>) {
    for (const StoredTensor& tensor : header.learned()) body(tensor);
    for (const StoredTensor& tensor : header.recording().input()) body(tensor);
    for (const StoredTensor& tensor : header.recording().output()) body(tensor);
  } else {
    for (StoredTensor& tensor : *header.mutable_learned()) body(tensor);
    for (StoredTensor& tensor : *header.mutable_recording()->mutable_input()) body(tensor);
    for (StoredTensor& tensor : *header.mutable_recording()->mutable_output()) body(tensor);
  }
}

}  // namespace crema::crema_layout
