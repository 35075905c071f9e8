// The most bytes that `new` had handed out at one time. Always 0 under sanitizers, which bring an
// allocator of their own.
#pragma once

#include <cstdint>

namespace crema::test {

int64_t StartHeapPeak();  // returns what is handed out now
int64_t HeapPeak();       // since StartHeapPeak

}  // namespace crema::test
