// Kills a process (SIGKILL) during an export: the name refers to the old or the new file, complete.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "format/file.h"
#include "inference/crema_export.h"
#include "support/serving_nets.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

// 4 MiB, so that writing takes a while.
const char* const kWideNet = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1024 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 1024 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
)";

// Starts a process that exports repeatedly. Returns when it begins, or after its first export.
pid_t StartExporting(const std::string& path, bool exports_once) {
  int ready[2];
  if (::pipe(ready) != 0) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ready[0]);
    const auto model = test::ModelOf(kWideNet);
    if (::write(ready[1], "x", 1) != 1) ::_exit(1);
    std::signal(SIGPIPE, SIG_IGN);  // nobody may wait for the first export
    ExportModel(model, path);
    static_cast<void>(::write(ready[1], "x", 1) == 1);
    for (;;) ExportModel(model, path);
  }
  ::close(ready[1]);
  bool begun = true;
  char byte = 0;
  for (int i = 0; i < (exports_once ? 2 : 1); ++i) begun = begun && ::read(ready[0], &byte, 1) == 1;
  ::close(ready[0]);
  return begun ? child : -1;
}

TEST(KilledExport, LeavesAWholeFileOrNone) {
  const test::TempDir folder;
  const std::string path = folder.File("m.crema");
  int whole = 0;
  for (int round = 0; round < 40; ++round) {
    const pid_t child = StartExporting(path, round % 4 == 3);
    ASSERT_GT(child, 0);
    ::usleep(static_cast<useconds_t>(700 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself";
    if (!std::filesystem::exists(path)) continue;
    ASSERT_NO_THROW(Model::Open(path, {}, test::TestRegistry(), NullSink())) << round;
    ++whole;
  }
  EXPECT_GT(whole, 0);
  // The next export removes leftovers of killed ones.
  ExportModel(test::ModelOf(kWideNet), path);
  EXPECT_EQ(folder.FileCount(), 1U);
}

}  // namespace
}  // namespace crema
