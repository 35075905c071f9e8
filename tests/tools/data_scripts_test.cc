// The download scripts, as far as possible without a network.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/process.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema::test {
namespace {

std::string Script(const std::string& name) {
  return std::string(CREMA_SOURCE_DIR) + "/data/" + name + "/get.sh";
}

// Uses a proxy that does not exist.
ProcessResult RunOffline(const std::string& name, const std::string& folder) {
  const std::string nowhere = "http://127.0.0.1:9";
  return RunProcess({"/usr/bin/env", "http_proxy=" + nowhere, "https_proxy=" + nowhere,
                     "ALL_PROXY=" + nowhere, "no_proxy=", "bash", Script(name), folder});
}

TEST(DataScripts, HelpSaysWhatTheyDo) {
  for (const char* name : {"mnist", "cifar10", "ilsvrc12"}) {
    const ProcessResult result = RunProcess({"/bin/bash", Script(name), "--help"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(Contains(result.out, "Usage: data/")) << result.out;
    EXPECT_TRUE(Contains(result.out, "convert_")) << result.out;
    EXPECT_FALSE(Contains(result.out, "pipefail")) << result.out;
  }
}

TEST(DataScripts, WithoutNetworkTheySayWhatToDo) {
  for (const char* name : {"mnist", "cifar10"}) {
    const TempDir temp;
    temp.Write("cifar-10-binary.tar.gz", "not what it should be");
    const ProcessResult result = RunOffline(name, temp.path());
    EXPECT_EQ(result.exit_code, 3) << result.out << result.err;
    EXPECT_TRUE(Contains(result.err, "is there a network")) << result.err;
    EXPECT_TRUE(Contains(result.err, temp.path())) << result.err;
  }
}

TEST(DataScripts, ImagenetIsFetchedByHand) {
  const TempDir temp;
  const ProcessResult offline = RunOffline("ilsvrc12", temp.path());
  EXPECT_EQ(offline.exit_code, 3);
  EXPECT_TRUE(Contains(offline.err, "is there a network")) << offline.err;
  EXPECT_EQ(RunOffline("ilsvrc12", temp.File("none")).exit_code, 3);
}

}  // namespace
}  // namespace crema::test
