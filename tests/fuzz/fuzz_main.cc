// A libFuzzer target: CREMA_FUZZ_TARGET is one of the functions of support/fuzz_targets.h.
#include <cstddef>
#include <cstdint>

#include "support/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  crema::test::CREMA_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
