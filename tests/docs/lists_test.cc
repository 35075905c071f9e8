// Every pass and every solver type stands in the pages and lists that have a line for each.
#include <gtest/gtest.h>

#include <iterator>
#include <regex>
#include <string>

#include "format/file.h"
#include "plan/plan_passes.h"
#include "solvers/update_rule.h"

namespace crema {
namespace {

// Expects `count` matches of a regular expression in which @ stands for the name.
void ExpectNamed(const std::string& name, const std::string& pattern, const std::string& path,
                 int count = 1) {
  const std::string text = ReadFile(std::string(CREMA_SOURCE_DIR) + "/" + path);
  const std::regex expected(std::regex_replace(pattern, std::regex("@"), name));
  EXPECT_EQ(std::distance(std::sregex_iterator(text.begin(), text.end(), expected), {}), count)
      << path << " must name " << name << ", in the form " << pattern;
}

TEST(Lists, HaveEveryPass) {
  for (const NamedPass& pass : kNamedPasses) {
    const std::string name(pass.name);
    ExpectNamed(name, "\n\\| `@` \\|", "docs/performance.md");
    ExpectNamed(name, " \\| `@` \\| ", "docs/development/graph_and_passes.md");
  }
}

TEST(Lists, HaveEverySolverType) {
  for (const UpdateRule& rule : UpdateRules()) {
    const std::string& name = rule.name;
    ExpectNamed(name, "\n\\| `@` \\|", "docs/solvers.md", 2);
    ExpectNamed(name, "\n *// [^\n]*\\b@\\b[^\n]*\n(?: *//[^\n]*\n)* *optional string type = 40 ",
                "proto/crema.proto");
    ExpectNamed(name, "\ntypes=[^\n]*\\b@\\b", "tests/soak/kill_resume.sh");
    ExpectNamed(name, "\n *\\[@\\]=", "bench/solvers_mnist.sh");
    ExpectNamed(name, "\norder=\\([^\n]*\\b@\\b", "bench/solvers_mnist.sh");
  }
}

}  // namespace
}  // namespace crema
