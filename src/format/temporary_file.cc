#include "format/temporary_file.h"

#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <vector>

namespace crema {
namespace {

namespace fs = std::filesystem;

bool IsRunning(pid_t process) {
  return process != ::getpid() && (::kill(process, 0) == 0 || errno != ESRCH);
}

}  // namespace

std::string_view NameOfAbandoned(std::string_view name) {
  constexpr std::string_view kMark = ".tmp.";
  const size_t at = name.rfind(kMark);
  if (at == std::string_view::npos) return {};
  const std::string_view digits = name.substr(at + kMark.size());
  pid_t process = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), process);
  if (error != std::errc() || end != digits.data() + digits.size() || process <= 0) return {};
  return IsRunning(process) ? std::string_view() : name.substr(0, at);
}

void RemoveAbandoned(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string name = fs::path(path).filename().string();
  std::vector<fs::path> abandoned;
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const std::string temporary = entry->path().filename().string();
    if (!name.empty() && NameOfAbandoned(temporary) == name && entry->is_regular_file(ignored)) {
      abandoned.push_back(entry->path());
    }
  }
  for (const fs::path& file : abandoned) fs::remove(file, error);
}

}  // namespace crema
