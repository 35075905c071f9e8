#include "common/program_beside.h"

#include <filesystem>
#include <system_error>

namespace crema::tools {

std::string ProgramBeside(const char* name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? name : (self.parent_path() / name).string();
}

}  // namespace crema::tools
