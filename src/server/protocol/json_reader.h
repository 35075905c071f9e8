// RapidJSON's parser, which writes to a null pointer if its own allocators have no memory.
#pragma once

#include <rapidjson/reader.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace crema::server {

// Throws std::bad_alloc. Names of members are RapidJSON's.
struct ThrowingAllocator {
  static constexpr bool kNeedFree = true;
  void* Malloc(size_t size) { return Realloc(nullptr, 0, size); }
  void* Realloc(void* old, size_t /*old_size*/, size_t size) {
    if (size == 0) {
      Free(old);
      return nullptr;
    }
    void* memory = std::realloc(old, size);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  static void Free(void* memory) { std::free(memory); }
};

using JsonReader =
    rapidjson::GenericReader<rapidjson::UTF8<>, rapidjson::UTF8<>, ThrowingAllocator>;

}  // namespace crema::server
