#include "format/temporary_file.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string_view>
#include <vector>

#include "core/host_name.h"
#include "core/strings.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".tmp.";

bool IsRunning(pid_t process) {
  return process != ::getpid() && (::kill(process, 0) == 0 || errno != ESRCH);
}

// False where nobody knows.
bool IsADayOld(const std::string& path) {
  std::error_code error;
  const auto changed = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - changed > std::chrono::hours(24);
}

// What the name of a temporary file says.
struct Temporary {
  std::string_view name;  // of the file that is to be; empty: this is none
  std::string_view host;  // empty: not told
  pid_t process = 0;
};

Temporary ParseTemporary(std::string_view name) {
  const size_t at = name.rfind(kMark);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = name.substr(at + kMark.size());
  const size_t dot = rest.rfind('.');
  const std::string_view digits = dot == std::string_view::npos ? rest : rest.substr(dot + 1);
  Temporary parsed{.name = name.substr(0, at), .host = {}, .process = 0};
  if (dot != std::string_view::npos) parsed.host = rest.substr(0, dot);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), parsed.process);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && parsed.process > 0 ? parsed : Temporary();
}

}  // namespace

std::string TemporaryPath(const std::string& path) {
  return StrCat(path, kMark, HostName(), ".", ::getpid());
}

std::string NameOfAbandoned(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const Temporary temporary = ParseTemporary(name);
  if (temporary.name.empty()) return "";
  const bool gone = temporary.host == HostName() ? !IsRunning(temporary.process) : IsADayOld(path);
  return gone ? std::string(temporary.name) : "";
}

void RemoveAbandoned(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string name = fs::path(path).filename().string();
  std::vector<fs::path> abandoned;
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!name.empty() && NameOfAbandoned(entry->path().string()) == name &&
        entry->is_regular_file(ignored)) {
      abandoned.push_back(entry->path());
    }
  }
  for (const fs::path& file : abandoned) fs::remove(file, error);
}

}  // namespace crema
