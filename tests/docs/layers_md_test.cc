// docs/layers.md says what the code says.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "core/strings.h"
#include "support/process.h"

namespace crema::test {
namespace {

std::string Read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(LayersMd, IsNotStale) {
#if !defined(CREMA_HAVE_HDF5) || !defined(CREMA_HAVE_OPENCV)
  GTEST_SKIP() << "some layers are not in this build";
#endif
  const std::string source = CREMA_SOURCE_DIR;
  const ProcessResult made =
      RunProcess({CREMA_BIN_DIR "/../dev/layer_reference", CREMA_BIN_DIR "/../proto/crema.desc"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_TRUE(made.out == Read(source + "/docs/layers.md"))
      << "docs/layers.md is stale; `make docs` writes it anew";
}

TEST(LayersMd, ItsToolSaysWhatTheBuildCanDo) {
  const ProcessResult made = RunProcess({CREMA_BIN_DIR "/../dev/layer_reference", "--facts"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  for (const std::string& line : Split(made.out, '\n')) {
    if (line.starts_with("{\"type\": \"InnerProduct\"")) {
      EXPECT_NE(line.find("\"gradient\": true"), std::string::npos) << line;
      EXPECT_NE(line.find("\"native\"]"), std::string::npos) << line;
      EXPECT_NE(line.find("\"tf32\": true"), std::string::npos) << line;
      return;
    }
  }
  FAIL() << "no line of InnerProduct: " << made.out;
}

TEST(LayersMd, ItsToolHasHelp) {
  const ProcessResult help = RunProcess({CREMA_BIN_DIR "/../dev/layer_reference", "--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_TRUE(help.out.starts_with("usage: layer_reference")) << help.out;
  EXPECT_EQ(RunProcess({CREMA_BIN_DIR "/../dev/layer_reference", "--hlep"}).exit_code, 2);
}

}  // namespace
}  // namespace crema::test
