#include "format/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

#include "core/folder.h"
#include "core/host_name.h"
#include "core/strings.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp.";

bool IsRunning(pid_t process) {
  return process != ::getpid() && (::kill(process, 0) == 0 || errno != ESRCH);
}

// Returns false if unknown.
bool IsADayOld(const std::string& path) {
  std::error_code error;
  const auto changed = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - changed > std::chrono::hours(24);
}

// Returns false if unknown.
bool IsBeingWritten(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  const bool locked = ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(file);
  return locked;
}

bool IsHex(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Parts of a temporary file's name.
struct Temporary {
  std::string_view name;  // name of the target; empty: not a temporary file
  std::string_view host;  // empty: not given
  pid_t process = 0;
};

Temporary ParseTemporary(std::string_view name) {
  const size_t at = name.rfind(kMark);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = name.substr(at + kMark.size());
  const size_t dot = rest.rfind('.');
  std::string_view digits = dot == std::string_view::npos ? rest : rest.substr(dot + 1);
  const size_t random = digits.rfind('-');
  if (random != std::string_view::npos && IsHex(digits.substr(random + 1))) {
    digits = digits.substr(0, random);
  }
  Temporary parsed{.name = name.substr(0, at), .host = {}, .process = 0};
  if (dot != std::string_view::npos) parsed.host = rest.substr(0, dot);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), parsed.process);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && parsed.process > 0 ? parsed : Temporary();
}

}  // namespace

std::string TemporaryPath(const std::string& path) {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof(random), 0) != static_cast<ssize_t>(sizeof(random))) {
    random = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  std::array<char, 17> hex{};
  std::snprintf(hex.data(), hex.size(), "%016llx", static_cast<unsigned long long>(random));
  return StrCat(path, kMark, HostName(), ".", ::getpid(), "-", hex.data());
}

void MarkAsBeingWritten(int descriptor) {
  static_cast<void>(::flock(descriptor, LOCK_EX | LOCK_NB));
}

std::string NameOfAbandoned(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const Temporary temporary = ParseTemporary(name);
  if (temporary.name.empty()) return "";
  const bool gone = temporary.host == HostName() ? !IsRunning(temporary.process) : IsADayOld(path);
  return gone && !IsBeingWritten(path) ? std::string(temporary.name) : "";
}

void RemoveAbandoned(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string name = fs::path(path).filename().string();
  std::vector<fs::path> abandoned;
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; Advance(entry, error)) {
    std::error_code ignored;
    if (!name.empty() && NameOfAbandoned(entry->path().string()) == name &&
        entry->is_regular_file(ignored)) {
      abandoned.push_back(entry->path());
    }
  }
  for (const fs::path& file : abandoned) fs::remove(file, error);
}

}  // namespace crema
