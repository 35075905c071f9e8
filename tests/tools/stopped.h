// Commands that are stopped in the middle of a data set and then resumed.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/error.h"
#include "data/image/image.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema::test {

// Takes a command several milliseconds to decode, and little space when encoded.
inline Image SlowImage() {
  constexpr int kSide = 1500;
  return {.channels = 3,
          .height = kSide,
          .width = kSide,
          .pixels = std::vector<uint8_t>(size_t{3} * kSide * kSide, 99)};
}

// Independent of the file size: an unfinished commit writes, too.
inline bool HasCommitted(const std::string& lmdb) {
  try {
    return OpenRecords(lmdb)->count() > 0;
  } catch (const Error&) {  // missing or empty
    return false;
  }
}

inline bool HasBytes(const std::string& path, uint64_t least) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  return !error && size >= least;
}

// Starts `command`, which makes the data set `output`, and sends `signal` once `begun` holds, while
// much is left to do; tries again if the command was faster. Returns its exit code. Its stderr is
// in the file "stderr" of `temp`.
inline int StopInTheMiddle(const TempDir& temp, const std::vector<std::string>& command,
                           const std::string& output, int signal,
                           const std::function<bool()>& begun) {
  int exit_code = 0;
  for (int attempt = 0; attempt < 10 && exit_code == 0; ++attempt) {
    std::filesystem::remove_all(output);
    Process process(command, "", temp.File("stdout"), temp.File("stderr"));
    while (!begun() && process.IsRunning()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    process.Signal(signal);
    exit_code = process.Wait();
  }
  return exit_code;
}

// Expects that --resume completes the data set, and then has nothing left to do.
inline void ExpectGoesOn(std::vector<std::string> command, const std::string& output,
                         const Records& whole) {
  command.insert(command.begin() + 1, "--resume");
  const ProcessResult resumed = RunProcess(command);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(ReadAll(output), whole);
  EXPECT_FALSE(std::filesystem::exists(output + ".unfinished"));
  EXPECT_TRUE(Contains(RunProcess(command).out, "complete already"));
}

}  // namespace crema::test
