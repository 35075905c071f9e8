// Runs the machine code of AMX on processors without it: each of its instructions faults there, and
// the handler of the fault executes it by the stand-in. For Linux on x86-64; elsewhere nothing
// happens.
#pragma once

#include <cstdint>
#include <memory>

namespace crema::test {

// While it lives, for the whole process. One at a time; the emulated code may use many threads.
class TileEmulator {
 public:
  TileEmulator();
  ~TileEmulator();
  TileEmulator(const TileEmulator&) = delete;
  TileEmulator& operator=(const TileEmulator&) = delete;

  // Instructions since it was made.
  static int64_t Executed();

 private:
  struct Before;
  std::unique_ptr<Before> before_;
};

}  // namespace crema::test
