// The pages and lists with a line for each pass, solver type or layer of a fork have all of them.
#include <gtest/gtest.h>

#include <iterator>
#include <regex>
#include <string>

#include "format/file.h"
#include "format/fork_layers.h"
#include "plan/plan_passes.h"
#include "solvers/update_rule.h"

namespace crema {
namespace {

// Expects `count` matches of a regular expression in which @ is replaced by the name.
void ExpectNamed(const std::string& name, const std::string& path, const std::string& place,
                 const std::string& pattern, int count = 1) {
  const std::string text = ReadFile(std::string(CREMA_SOURCE_DIR) + "/" + path);
  const std::regex expected(std::regex_replace(pattern, std::regex("@"), name));
  EXPECT_EQ(std::distance(std::sregex_iterator(text.begin(), text.end(), expected), {}), count)
      << "name " << name << " in " << path << ": " << place;
}

TEST(Lists, HaveEveryPass) {
  for (const NamedPass& pass : kNamedPasses) {
    const std::string name(pass.name);
    ExpectNamed(name, "docs/performance.md", "the table of passes", "\n\\| `@` \\|");
    ExpectNamed(name, "docs/development/graph_and_passes.md", "the flag in the table of passes",
                " \\| `@` \\| ");
  }
}

TEST(Lists, HaveEverySolverType) {
  for (const UpdateRule& rule : UpdateRules()) {
    const std::string& name = rule.name;
    ExpectNamed(name, "docs/solvers.md", "both tables", "\n\\| `@` \\|", 2);
    ExpectNamed(name, "proto/crema.proto", "the comment of SolverParameter.type",
                "\n *// [^\n]*\\b@\\b[^\n]*\n(?: *//[^\n]*\n)* *optional string type = 40 ");
    ExpectNamed(name, "tests/soak/kill_resume.sh", "types", "\ntypes=[^\n]*\\b@\\b");
    ExpectNamed(name, "bench/solvers_mnist.sh", "settings", "\n *\\[@\\]=");
    ExpectNamed(name, "bench/solvers_mnist.sh", "order", "\norder=\\([^\n]*\\b@\\b");
  }
}

TEST(Lists, HaveEveryLayerOfForks) {
  for (const ForkLayer& layer : ForkLayers()) {
    ExpectNamed(std::string(layer.type), "docs/caffe.md", "the tables of layers of forks",
                "(?:\n\\| |[,;] )@(?: \\||[,;])");
  }
}

}  // namespace
}  // namespace crema
