// A test program that may start few threads (few_threads.c is part of it).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <system_error>

namespace crema::test {

// Calls make() with a limit of 0, 1, 2 ... threads, until it returns; before that it must throw
// std::system_error at least `least` times. Its threads must be joined by then, or the process
// ends.
template <typename Make>
void ExpectThreadErrors(int least, Make&& make) {
  constexpr int kMost = 100;
  for (int threads = 0; threads < kMost; ++threads) {
    setenv("FEW_THREADS", std::to_string(threads).c_str(), 1);
    bool made = false;
    try {
      make();
      made = true;
    } catch (const std::system_error&) {
      made = false;
    }
    unsetenv("FEW_THREADS");
    if (!made) continue;
    EXPECT_GE(threads, least);
    return;
  }
  ADD_FAILURE() << kMost << " threads are not enough";
}

}  // namespace crema::test
