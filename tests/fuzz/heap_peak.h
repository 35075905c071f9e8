// The peak of the bytes allocated by `new`. Always 0 under sanitizers, which have their own
// allocator.
#pragma once

#include <cstdint>

namespace crema::test {

int64_t StartHeapPeak();  // returns the bytes allocated now
int64_t HeapPeak();       // since StartHeapPeak

}  // namespace crema::test
