// A libFuzzer target: CREMA_FUZZ_TARGET is one of the functions of fuzz_server.h.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "server/fuzz_server.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  crema::test::CREMA_FUZZ_TARGET(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
