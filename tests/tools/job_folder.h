// A folder with pictures, for tests of the command new.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "format/prototxt.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema::test {

class JobFolder : public ::testing::Test {
 protected:
  void Add(const std::string& name, const std::string& bytes) {
    std::filesystem::create_directories(std::filesystem::path(temp_.File(name)).parent_path());
    temp_.Write(name, bytes);
  }
  // A picture of one value, gray unless it has 3 channels.
  void AddPicture(const std::string& name, int value, int side = 12, int channels = 1) {
    const auto count = static_cast<size_t>(channels) * static_cast<size_t>(side * side);
    Add(name, EncodeImage({.channels = channels,
                           .height = side,
                           .width = side,
                           .pixels = std::vector<uint8_t>(count, static_cast<uint8_t>(value))},
                          "png", 0));
  }
  // Folders a, b, ... with `count` pictures each.
  void AddClasses(const std::string& folder, int classes, int count, int channels = 1) {
    for (int c = 0; c < classes; ++c) {
      for (int i = 0; i < count; ++i) {
        AddPicture(StrCat(folder, "/", static_cast<char>('a' + c), "/", i, ".png"),
                   c * 255 / classes + i % 8, 12, channels);
      }
    }
  }

  ProcessResult New(std::vector<std::string> flags) {
    flags.emplace_back("-o=job");
    return RunTool("new", flags, temp_.path());
  }
  // Runs new, which must succeed.
  std::string Made(const std::vector<std::string>& flags) {
    std::filesystem::remove_all(temp_.File("job"));
    const ProcessResult result = New(flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out + result.err;
  }
  void ExpectRefused(const std::vector<std::string>& flags, const std::string& message,
                     int code = 2) {
    const ProcessResult result = New(flags);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_TRUE(Contains(result.err, message)) << result.err;
    EXPECT_FALSE(std::filesystem::exists(temp_.File("job"))) << "nothing is left";
  }
  // As ExpectRefused, after a job was made.
  void ExpectRefusedAnew(const std::vector<std::string>& flags, const std::string& message,
                         int code = 2) {
    std::filesystem::remove_all(temp_.File("job"));
    ExpectRefused(flags, message, code);
  }
  // Runs a command in the folder; returns what it printed.
  std::string Run(const std::string& command, const std::vector<std::string>& flags) {
    const ProcessResult result = RunTool(command, flags, temp_.path());
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
    return result.out;
  }
  std::vector<std::string> LinesOf(const std::string& file) const {
    std::vector<std::string> lines = Split(temp_.Read(file), '\n');
    lines.pop_back();
    return lines;
  }
  NetParameter Net() const { return ReadNet(temp_.File("job/train_val.prototxt")).net; }
  SolverParameter Solver() const { return ReadSolver(temp_.File("job/solver.prototxt")).solver; }

  TempDir temp_;
};

}  // namespace crema::test
