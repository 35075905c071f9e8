// Runs the machine code of AMX on processors without it: each of its instructions faults there, and
// what handles the fault does it with the stand-in. For Linux on x86-64; elsewhere nothing happens.
#pragma once

#include <cstdint>
#include <memory>

namespace crema::test {

// While it lives, for the whole process. One at a time; what it lets run may use many threads.
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
