// libcrema_deploy exports its interface and nothing else, and has all of Crema inside.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace crema::api_test {
namespace {

std::vector<std::string> LinesOf(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::vector<std::string> lines;
  char line[4096];
  while (pipe != nullptr && std::fgets(line, sizeof(line), pipe.get()) != nullptr) {
    lines.emplace_back(line);
    lines.back().erase(lines.back().find_last_not_of('\n') + 1);
  }
  return lines;
}

TEST(ExportedSymbols, AreTheInterface) {
  const auto lines =
      LinesOf("nm -D --defined-only --format=posix " CREMA_DEPLOY_LIBRARY " | c++filt 2>/dev/null");
  if (lines.empty()) GTEST_SKIP() << "nm or c++filt is not there";
  int c = 0;
  int cpp = 0;
  for (const std::string& line : lines) {
    const bool is_c = line.rfind("crema_", 0) == 0;
    const bool is_cpp = line.rfind("crema::deploy::", 0) == 0 ||
                        line.find(" for crema::deploy::Error ") != std::string::npos;
    EXPECT_TRUE(is_c || is_cpp) << line;
    c += is_c;
    cpp += is_cpp;
  }
  EXPECT_EQ(c, 21);
  EXPECT_GT(cpp, 15);
}

TEST(Dependencies, AreNoOtherLibraryOfCrema) {
  const auto lines = LinesOf("readelf -d " CREMA_DEPLOY_LIBRARY " 2>/dev/null | grep NEEDED");
  if (lines.empty()) GTEST_SKIP() << "readelf is not there";
  for (const std::string& line : lines) EXPECT_EQ(line.find("libcrema"), std::string::npos) << line;
}

}  // namespace
}  // namespace crema::api_test
