// Every pass and every solver type stands in the pages and lists that have a line for each.
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "format/file.h"
#include "plan/plan_passes.h"
#include "solvers/update_rule.h"

namespace crema {
namespace {

void ExpectNamed(const std::string& name, const std::string& before, const std::string& after,
                 const std::string& path) {
  const std::string text = ReadFile(std::string(CREMA_SOURCE_DIR) + "/" + path);
  EXPECT_NE(text.find(before + name + after), std::string::npos)
      << path << " has no line for " << name;
}

TEST(Lists, HaveEveryPass) {
  for (const NamedPass& pass : kNamedPasses) {
    ExpectNamed(std::string(pass.name), "| `", "` |", "docs/performance.md");
  }
}

TEST(Lists, HaveEverySolverType) {
  for (const UpdateRule& rule : UpdateRules()) {
    ExpectNamed(rule.name, "| `", "` |", "docs/solvers.md");
    const std::regex word("\\b" + rule.name + "\\b");
    for (const char* path : {"proto/crema.proto", "tests/soak/kill_resume.sh",
                             "bench/solvers_mnist.sh", "tests/solvers/update_fields_test.cc"}) {
      const std::string text = ReadFile(std::string(CREMA_SOURCE_DIR) + "/" + path);
      EXPECT_TRUE(std::regex_search(text, word)) << path << " does not name " << rule.name;
    }
  }
}

}  // namespace
}  // namespace crema
