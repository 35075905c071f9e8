#include "data/records/tar_archive.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

// Offsets and sizes of the fields of a header.
struct Field {
  size_t offset;
  size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kMode{100, 8};
constexpr Field kUser{108, 8};
constexpr Field kGroup{116, 8};
constexpr Field kSize{124, 12};
constexpr Field kTime{136, 12};
constexpr Field kChecksum{148, 8};
constexpr size_t kType = 156;
constexpr Field kMagicField{257, 6};
constexpr Field kPrefix{345, 155};
constexpr uint64_t kLongestName = uint64_t{1} << 20;  // a longer name means damage

std::string_view Raw(std::string_view header, Field field) {
  return header.substr(field.offset, field.size);
}

// Returns the text up to its zero byte.
std::string_view Text(std::string_view header, Field field) {
  const std::string_view raw = Raw(header, field);
  return raw.substr(0, std::min(raw.find('\0'), raw.size()));
}

// Parses octal digits between spaces or zeros; or, if the first bit is set, big-endian binary.
std::optional<uint64_t> Number(std::string_view header, Field field) {
  std::string_view raw = Raw(header, field);
  if (static_cast<uint8_t>(raw[0]) & 0x80) {
    uint64_t value = static_cast<uint8_t>(raw[0]) & 0x7F;
    for (const char c : raw.substr(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<uint8_t>(c);
    }
    return value;
  }
  raw = raw.substr(0, std::min(raw.find('\0'), raw.size()));
  raw = Trim(raw);
  if (raw.empty()) return 0;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(raw.data(), raw.data() + raw.size(), value, 8);
  if (error != std::errc() || end != raw.data() + raw.size()) return std::nullopt;
  return value;
}

// Sum of all bytes; those of the checksum field count as spaces.
uint64_t Checksum(std::string_view header) {
  uint64_t sum = kChecksum.size * ' ';
  for (size_t i = 0; i < header.size(); ++i) {
    const bool inside = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    if (!inside) sum += static_cast<uint8_t>(header[i]);
  }
  return sum;
}

bool IsZero(std::string_view block) {
  return block.find_first_not_of('\0') == std::string_view::npos;
}

uint64_t PaddedSize(uint64_t size) { return (size + kTarBlock - 1) / kTarBlock * kTarBlock; }

// Fields of extended headers for the next member.
struct Extended {
  std::string name;              // empty: not given
  std::optional<uint64_t> size;  // pax only
};

// Walks the headers of one archive.
class TarWalker {
 public:
  TarWalker(const RandomFile& file, const std::function<void(const TarMember&)>& visit)
      : file_(file), visit_(visit) {}

  void Walk() {
    RefuseOthers();
    while (Step()) {
    }
  }

 private:
  [[noreturn]] void FailAt(uint64_t offset, const std::string& what) const {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", file_.path(), "', byte ", offset, ": ", what, "; copy or write it again"));
  }

  void RefuseOthers() const {
    const std::string start = file_.Read(0, 6);
    if (start.starts_with("\x1F\x8B") || start.starts_with("BZh") ||
        start.starts_with("\x28\xB5\x2F\xFD") ||
        start.starts_with("\xFD"
                          "7zXZ")) {
      Fail(ErrorCode::kDataLoss,
           StrCat("'", file_.path(),
                  "' is a compressed archive, which can only be read from its beginning: "
                  "decompress it (images are compressed anyway)"));
    }
  }

  // Returns false at the end mark.
  bool Step() {
    // Reads ahead, so that short contents need no second read.
    const std::string blocks = file_.Read(at_, 2 * kTarBlock);
    const std::string_view header = std::string_view(blocks).substr(0, kTarBlock);
    if (header.size() < kTarBlock) {
      FailAt(file_.size(), "the archive is cut short: it ends without its end mark");
    }
    if (IsZero(header)) return false;
    const auto sum = Number(header, kChecksum);
    if (!sum || *sum != Checksum(header)) {
      FailAt(at_, at_ == 0 ? "this is no tar archive" : "the header of a member is damaged");
    }
    const auto size = Number(header, kSize);
    if (!size) FailAt(at_, "the size of a member is damaged");
    TakeMember(header, *size, std::string_view(blocks).substr(kTarBlock));
    return true;
  }

  void TakeMember(std::string_view header, uint64_t size, std::string_view next) {
    const char type = header[kType];
    const uint64_t contents = at_ + kTarBlock;
    const bool describes = type == 'L' || type == 'K' || type == 'x' || type == 'g';
    if (describes) {
      TakeExtended(type, contents, size);
      at_ = contents + PaddedSize(size);
      return;
    }
    const bool empty = type >= '1' && type <= '6';  // links, devices, folders: no contents
    if (type == 'S') FailAt(at_, "members with holes (sparse files) are not supported");
    if (extended_.size) size = *extended_.size;
    const uint64_t held = empty ? 0 : size;
    CheckInside(contents, held);
    TarMember member{.name = NameOf(header), .header = at_, .offset = contents, .size = held};
    extended_ = {};
    at_ = contents + PaddedSize(held);
    // Before ustar, a trailing slash marked a folder.
    const bool file = (type == '0' || type == '\0' || type == '7') && !member.name.ends_with('/');
    if (!file) return;
    member.start = next.substr(0, std::min<uint64_t>(held, next.size()));
    visit_(member);
  }

  void CheckInside(uint64_t contents, uint64_t size) const {
    if (contents <= file_.size() && size <= file_.size() - contents) return;
    FailAt(at_,
           StrCat("the archive is cut short or damaged: a member of ", size, " bytes begins here, ",
                  file_.size() - std::min(contents, file_.size()), " are left"));
  }

  std::string NameOf(std::string_view header) const {
    if (!extended_.name.empty()) return extended_.name;
    std::string name(Text(header, kName));
    // GNU tar uses the bytes of the prefix for other fields.
    const bool posix = Raw(header, kMagicField) == std::string_view("ustar\0", 6);
    const std::string_view prefix = posix ? Text(header, kPrefix) : std::string_view();
    return prefix.empty() ? name : StrCat(prefix, "/", name);
  }

  void TakeExtended(char type, uint64_t contents, uint64_t size) {
    CheckInside(contents, size);
    if (size > kLongestName) FailAt(at_, StrCat("an extended header of ", size, " bytes"));
    const std::string text = file_.Read(contents, size);
    if (type == 'L') extended_.name = text.substr(0, text.find('\0'));
    if (type == 'x') TakePax(text);
  }

  // Parses records of `length key=value\n`; the length includes itself.
  void TakePax(std::string_view text) {
    while (!text.empty() && text[0] != '\0') {
      const size_t space = text.find(' ');
      uint64_t length = 0;
      const char* end = text.data() + std::min(space, text.size());
      const auto [stop, error] = std::from_chars(text.data(), end, length);
      if (space == std::string_view::npos || error != std::errc() || stop != end ||
          length < space + 3 || length > text.size() || text[length - 1] != '\n') {
        FailAt(at_, "an extended (pax) header is damaged");
      }
      const std::string_view record = text.substr(space + 1, length - space - 2);
      const size_t equals = record.find('=');
      if (equals == std::string_view::npos) FailAt(at_, "an extended (pax) header is damaged");
      TakePaxRecord(record.substr(0, equals), record.substr(equals + 1));
      text.remove_prefix(length);
    }
  }

  void TakePaxRecord(std::string_view key, std::string_view value) {
    if (key == "path") extended_.name = value;
    if (key.starts_with("GNU.sparse")) {
      FailAt(at_, "members with holes (sparse files) are not supported");
    }
    if (key != "size") return;
    uint64_t size = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (error != std::errc() || end != value.data() + value.size()) {
      FailAt(at_, "an extended (pax) header is damaged");
    }
    extended_.size = size;
  }

  const RandomFile& file_;
  const std::function<void(const TarMember&)>& visit_;
  uint64_t at_ = 0;
  Extended extended_;
};

void PutText(std::string* header, Field field, std::string_view text) {
  std::memcpy(header->data() + field.offset, text.data(), std::min(text.size(), field.size));
}

void PutOctal(std::string* header, Field field, uint64_t value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%0*llo", static_cast<int>(field.size - 1),
                static_cast<unsigned long long>(value));
  PutText(header, field, {digits, field.size - 1});
}

std::string PlainHeader(std::string_view name, char type, uint64_t size) {
  constexpr uint64_t kReadable = 0644;
  std::string header(kTarBlock, '\0');
  PutText(&header, kName, name);
  PutOctal(&header, kMode, kReadable);
  PutOctal(&header, kUser, 0);
  PutOctal(&header, kGroup, 0);
  PutOctal(&header, kSize, size);
  PutOctal(&header, kTime, 0);
  header[kType] = type;
  PutText(&header, {kMagicField.offset, 8},
          "ustar  ");  // GNU format, since its long names may follow
  char digits[16];
  std::snprintf(digits, sizeof digits, "%06llo", static_cast<unsigned long long>(Checksum(header)));
  PutText(&header, kChecksum, std::string_view(digits, 6));
  header[kChecksum.offset + 7] = ' ';
  return header;
}

}  // namespace

void VisitTar(const RandomFile& file, const std::function<void(const TarMember&)>& visit) {
  TarWalker(file, visit).Walk();
}

std::string TarHeader(const std::string& name, uint64_t size) {
  constexpr uint64_t kMostBytes = (uint64_t{1} << 33) - 1;  // eleven octal digits
  CREMA_CHECK(size <= kMostBytes);
  if (name.size() < kName.size) return PlainHeader(name, '0', size);
  std::string contents = name + '\0';
  const uint64_t bytes = contents.size();
  contents.resize(PaddedSize(bytes));
  return PlainHeader("././@LongLink", 'L', bytes) + contents + PlainHeader(name, '0', size);
}

std::string TarEnd() { return std::string(2 * kTarBlock, '\0'); }

}  // namespace crema
