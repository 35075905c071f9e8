#include "format/seal.h"

#include <zlib.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"

namespace crema {
namespace {

using std::string_view_literals::operator""sv;

// Wire format: tag of field 1000 or 1001 with 14 bytes to follow, tag of a fixed64, tag of a
// fixed32.
constexpr std::string_view kHeadStart = "\xC2\x3E\x0E\x09"sv;
constexpr std::string_view kTailStart = "\xCA\x3E\x0E\x09"sv;
constexpr char kCrcTag = '\x15';
constexpr size_t kLengthAt = 4;
constexpr size_t kCrcTagAt = 12;
constexpr size_t kCrcAt = 13;

struct SealValues {
  uint64_t length;
  uint32_t crc;
};

std::string LittleEndian(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}

uint64_t FromLittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::string Encode(std::string_view start, const SealValues& values) {
  return std::string(start) + LittleEndian(values.length, 8) + kCrcTag +
         LittleEndian(values.crc, 4);
}

// Decodes a seal from the first 17 of `bytes`; nothing if there is none.
std::optional<SealValues> Decode(std::string_view start, std::string_view bytes) {
  if (bytes.size() < kSealBytes || !bytes.starts_with(start)) return std::nullopt;
  if (bytes[kCrcTagAt] != kCrcTag) return std::nullopt;
  return SealValues{FromLittleEndian(bytes.substr(kLengthAt, 8)),
                    static_cast<uint32_t>(FromLittleEndian(bytes.substr(kCrcAt, 4)))};
}

[[noreturn]] void FailSeal(const std::string& path, const std::string& message) {
  Fail(ErrorCode::kDataLoss, message + "; take another copy or an earlier snapshot",
       {.file = path});
}

// Returns true for a file that was truncated within its head.
bool IsStartOfHead(std::string_view start, uint64_t file_size) {
  const size_t size = std::min(start.size(), kHeadStart.size());
  return size > 0 && file_size < kSealBytes && start.substr(0, size) == kHeadStart.substr(0, size);
}

template <typename Message>
void WriteUnsealed(const Message& message, const std::string& path) {
  const uint64_t size = message.ByteSizeLong();
  if (size + 2 * kSealBytes > kMaxFileBytes) {
    Fail(ErrorCode::kUnsupported,
         StrCat("cannot be written: it would have ", size, " bytes, and such files end at 2 GiB; ",
                "write HDF5, .h5 (snapshot_format: HDF5)"),
         {.file = path});
  }
  std::string body;
  body.reserve(size);
  message.AppendPartialToString(&body);
  const SealParts seal = SealOf(body);
  AtomicFile file(path, size + 2 * kSealBytes);
  file.Write(seal.head);
  file.Write(body);
  file.Write(seal.tail);
  file.Commit();
}

template <typename Message>
void WriteAny(const Message& message, const std::string& path) {
  if (!message.has_seal_head() && !message.has_seal_tail()) return WriteUnsealed(message, path);
  Message copy = message;
  copy.clear_seal_head();
  copy.clear_seal_tail();
  WriteUnsealed(copy, path);
}

}  // namespace

uint32_t Crc32(std::string_view bytes, uint32_t running) {
  return static_cast<uint32_t>(
      ::crc32_z(running, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

SealParts SealOf(std::string_view body) {
  const SealValues values{body.size(), Crc32(body)};
  return {Encode(kHeadStart, values), Encode(kTailStart, values)};
}

std::string Seal(std::string_view body) {
  SealParts parts = SealOf(body);
  std::string bytes;
  bytes.reserve(body.size() + 2 * kSealBytes);
  bytes.append(parts.head).append(body).append(parts.tail);
  return bytes;
}

FileRange CheckSeals(std::string_view start, std::string_view end, uint64_t size,
                     const RangeCrc& crc, const std::string& path) {
  if (IsStartOfHead(start, size)) {
    FailSeal(path, StrCat("is truncated: only ", size, " bytes of it are left"));
  }
  const auto head = Decode(kHeadStart, start);
  const auto tail = Decode(kTailStart, end.substr(end.size() - std::min(end.size(), kSealBytes)));
  if (!head && !tail) return {0, size};
  if (!head) {
    // Another program has read our file, changed it and written it again. It moves unknown fields,
    // hence both seals, to the end, and they no longer apply. Damage never looks like this.
    const bool rewritten = size > 2 * kSealBytes && end.size() >= 2 * kSealBytes &&
                           Decode(kHeadStart, end.substr(end.size() - 2 * kSealBytes));
    if (rewritten) return {0, size - 2 * kSealBytes};
    FailSeal(path, "is damaged: its beginning has been altered or is missing");
  }
  constexpr uint64_t kPossible = uint64_t{1} << 48;  // a larger size means a damaged head
  const uint64_t whole = head->length + 2 * kSealBytes;
  if (head->length <= kPossible && size < whole) {
    FailSeal(path, StrCat("is truncated: it has ", size, " bytes of ", whole));
  }
  if (!tail) FailSeal(path, "is damaged: its end has been altered");
  if (whole != size || tail->length != head->length || tail->crc != head->crc ||
      crc({kSealBytes, head->length}) != head->crc) {
    FailSeal(path, "is damaged: its contents do not match their checksum");
  }
  return {kSealBytes, head->length};
}

std::string_view Unseal(std::string_view bytes, const std::string& path) {
  const size_t end_size = std::min(bytes.size(), 2 * kSealBytes);
  const auto crc = [&](const FileRange& range) {
    return Crc32(bytes.substr(range.begin, range.size));
  };
  const FileRange body = CheckSeals(bytes.substr(0, kSealBytes),
                                    bytes.substr(bytes.size() - end_size), bytes.size(), crc, path);
  return bytes.substr(body.begin, body.size);
}

void WriteSealed(const NetParameter& net, const std::string& path) { WriteAny(net, path); }
void WriteSealed(const SolverState& state, const std::string& path) { WriteAny(state, path); }

}  // namespace crema
