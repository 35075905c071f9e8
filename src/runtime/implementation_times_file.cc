#include "runtime/implementation_times_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

// To be incremented when the measurement or the file format changes.
constexpr std::string_view kHeader = "crema implementation times, version 1";
constexpr std::string_view kBeyond = "not measured within";
constexpr uint64_t kMostBytes = uint64_t{16} << 20;  // thousands of nets; then it starts anew

[[noreturn]] void FailText(const std::string& what) {
  Fail(ErrorCode::kDataLoss, StrCat("this is not a complete file of implementation times: ", what));
}

// Prints enough digits to read the same number back.
std::string PrintSeconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", seconds);
  return text;
}

double ParseSeconds(const std::string& text) {
  double seconds = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, seconds);
  if (error != std::errc() || stop != end || !std::isfinite(seconds) || seconds < 0) {
    FailText(StrCat("'", text.substr(0, 40), "' is not a time"));
  }
  return seconds;
}

std::string EndLine(size_t count, std::string_view body) {
  const uLong crc =
      crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<z_size_t>(body.size()));
  return StrCat("end ", count, " ", crc, "\n");
}

void ParseLine(const std::string& line, KnownLayers* layers) {
  const std::vector<std::string> fields = Split(line, '\t');
  if (fields.size() < 3 || fields.size() % 2 == 0) FailText("a line is cut");
  KnownTimes times;
  for (size_t i = 1; i + 1 < fields.size(); i += 2) {
    const double seconds = ParseSeconds(fields[i + 1]);
    if (fields[i] == kBeyond) {
      times.beyond = seconds;
    } else {
      times.seconds[fields[i]] = seconds;
    }
  }
  (*layers)[fields[0]] = std::move(times);
}

// Holds a lock on a file beside the times file.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path)
      : descriptor_(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) FailWrite(path, errno, 0);
    // On file systems without locks, times of another process may be lost.
    static_cast<void>(::flock(descriptor_, LOCK_EX));
  }
  ~FolderLock() { ::close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

}  // namespace

std::string PrintImplementationTimes(const KnownLayers& layers) {
  std::string body = StrCat(kHeader, "\n");
  for (const auto& [layer, times] : layers) {
    body += layer;
    for (const auto& [implementation, seconds] : times.seconds) {
      body += StrCat("\t", implementation, "\t", PrintSeconds(seconds));
    }
    if (times.seconds.empty()) body += StrCat("\t", kBeyond, "\t", PrintSeconds(times.beyond));
    body += '\n';
  }
  return body + EndLine(layers.size(), body);
}

KnownLayers ParseImplementationTimes(std::string_view text) {
  if (!text.starts_with(kHeader)) FailText("it does not begin as one");
  const size_t last = text.rfind('\n', text.empty() ? 0 : text.size() - 2);
  if (last == std::string_view::npos) FailText("it has no end");
  const std::string_view body = text.substr(0, last + 1);
  std::vector<std::string> lines = Split(body, '\n');
  if (lines.size() < 2 || lines[0] != kHeader) FailText("it does not begin as one");
  const size_t count = lines.size() - 2;  // without the first line and the empty end
  if (text.substr(last + 1) != EndLine(count, body)) FailText("its checksum is wrong");
  KnownLayers layers;
  for (size_t i = 1; i <= count; ++i) ParseLine(lines[i], &layers);
  return layers;
}

void MergeImplementationTimes(const KnownLayers& more, KnownLayers* layers) {
  for (const auto& [layer, times] : more) {
    KnownTimes& known = (*layers)[layer];
    for (const auto& [implementation, seconds] : times.seconds)
      known.seconds.try_emplace(implementation, seconds);
    known.beyond = std::max(known.beyond, times.beyond);
  }
}

KnownLayers ImplementationTimesFile::Read() const {
  std::error_code ignored;
  if (!fs::exists(path(), ignored)) return {};
  const std::string text = ReadFileStart(path(), kMostBytes + 1);
  try {
    if (text.size() > kMostBytes) FailText("it is too large");
    return ParseImplementationTimes(text);
  } catch (const Error& error) {
    Fail(ErrorCode::kDataLoss, error.problems().front().message, {.file = path()});
  }
}

void ImplementationTimesFile::Add(const KnownLayers& layers) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) FailWrite(folder_, error.value(), 0);
  const FolderLock lock(path() + ".lock");
  KnownLayers all;
  try {
    all = Read();
  } catch (const Error&) {
    all.clear();  // an earlier read has reported it
  }
  MergeImplementationTimes(layers, &all);
  WriteFileAtomically(path(), PrintImplementationTimes(all));
}

}  // namespace crema
