#include "core/run_program.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace crema {
namespace {

TEST(RunProgramTest, ReturnsTheExitCodeAndWritesErrors) {
  const test::TempDir folder;
  EXPECT_EQ(RunProgram({"sh", "-c", "echo told >&2; exit 5"}, folder.File("errors")), 5);
  EXPECT_EQ(folder.Read("errors"), "told\n");
}

TEST(RunProgramTest, ReturnsCodesOfShells) {
  EXPECT_EQ(RunProgram({"sh", "-c", "kill -9 $$"}), 137);
  EXPECT_EQ(RunProgram({"no-such-program-here"}), 127);
}

}  // namespace
}  // namespace crema
