#include "format/seal.h"

#include <zlib.h>

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "core/strings.h"

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

// The seal that the first 17 of `bytes` are, if they are one.
std::optional<SealValues> Decode(std::string_view start, std::string_view bytes) {
  if (bytes.size() < kSealBytes || !bytes.starts_with(start)) return std::nullopt;
  if (bytes[kCrcTagAt] != kCrcTag) return std::nullopt;
  return SealValues{FromLittleEndian(bytes.substr(kLengthAt, 8)),
                    static_cast<uint32_t>(FromLittleEndian(bytes.substr(kCrcAt, 4)))};
}

[[noreturn]] void FailSeal(const std::string& path, const std::string& message) {
  Where where;
  where.file = path;
  Fail(ErrorCode::kDataLoss, message + "; take another copy or an earlier snapshot", where);
}

// Less than a whole head: the file was cut within it.
bool IsStartOfHead(std::string_view bytes) {
  const size_t size = std::min(bytes.size(), kHeadStart.size());
  return size > 0 && bytes.size() < kSealBytes &&
         bytes.substr(0, size) == kHeadStart.substr(0, size);
}

}  // namespace

uint32_t Crc32(std::string_view bytes) {
  return static_cast<uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
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

std::string_view Unseal(std::string_view bytes, const std::string& path) {
  if (IsStartOfHead(bytes)) {
    FailSeal(path, StrCat("is truncated: only ", bytes.size(), " bytes of it are left"));
  }
  const auto head = Decode(kHeadStart, bytes);
  const size_t tail_at = bytes.size() - std::min(bytes.size(), kSealBytes);
  const auto tail = Decode(kTailStart, bytes.substr(tail_at));
  if (!head && !tail) return bytes;
  if (!head) {
    // Another program has read our file, changed it and written it again: it puts what it does not
    // know, both seals, at the end. They no longer speak of this file. Damage never looks so.
    const bool rewritten = bytes.size() > 2 * kSealBytes &&
                           Decode(kHeadStart, bytes.substr(bytes.size() - 2 * kSealBytes));
    if (rewritten) return bytes.substr(0, bytes.size() - 2 * kSealBytes);
    FailSeal(path, "is damaged: its beginning has been altered or is missing");
  }
  const uint64_t whole = head->length + 2 * kSealBytes;
  if (bytes.size() < whole && head->length <= uint64_t{1} << 31) {
    FailSeal(path, StrCat("is truncated: it has ", bytes.size(), " bytes of ", whole));
  }
  if (!tail) FailSeal(path, "is damaged: its end has been altered");
  const std::string_view body = bytes.substr(kSealBytes, tail_at - kSealBytes);
  if (whole != bytes.size() || tail->length != head->length || tail->crc != head->crc ||
      Crc32(body) != head->crc) {
    FailSeal(path, "is damaged: its contents do not match their checksum");
  }
  return body;
}

}  // namespace crema
