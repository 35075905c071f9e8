// Damage to files, as disks and networks do it: a function of its number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/rng.h"

namespace crema::test {

// Flips one to four bits; each eighth damage truncates the file instead, each other eighth
// overwrites some bytes with zeros.
inline void DamageBytes(std::string* bytes, uint64_t number) {
  if (bytes->empty()) return;
  const RandomStream random(7, number);
  const auto size = static_cast<uint32_t>(bytes->size());
  const size_t at = random.Below(0, size);
  if (number % 8 == 6) return bytes->resize(at);
  if (number % 8 == 7) {
    constexpr size_t kMost = 16;
    const size_t count = std::min(kMost, bytes->size() - at);
    bytes->replace(at, count, count, '\0');
    return;
  }
  for (uint64_t i = 0; i <= number % 4; ++i) {
    char& byte = (*bytes)[random.Below(1 + 2 * i, size)];
    byte = static_cast<char>(byte ^ (1 << random.Below(2 + 2 * i, 8)));
  }
}

inline void DamageFile(const std::string& path, uint64_t number) {
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  in.close();
  DamageBytes(&bytes, number);
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace crema::test
