#include "core/sha256.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace crema {
namespace {

constexpr size_t kBlock = 64;

// The first 32 bits of the fractions of roots of the first primes.
template <typename Root>
std::array<uint32_t, 64> Fractions(Root root) {
  std::array<uint32_t, 64> fractions{};
  size_t found = 0;
  for (int n = 2; found < fractions.size(); ++n) {
    bool is_prime = true;
    for (int d = 2; d * d <= n; ++d) is_prime = is_prime && n % d != 0;
    if (!is_prime) continue;
    const long double value = root(static_cast<long double>(n));
    fractions[found++] = static_cast<uint32_t>((value - std::floor(value)) * 0x1p32L);
  }
  return fractions;
}

void AddBlock(const char* block, const std::array<uint32_t, 64>& constants,
              std::array<uint32_t, 8>* sums) {
  std::array<uint32_t, 64> words{};
  for (size_t i = 0; i < kBlock; ++i) {
    words[i / 4] = words[i / 4] << 8 | static_cast<unsigned char>(block[i]);
  }
  for (size_t i = 16; i < words.size(); ++i) {
    const uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + words[i - 7] +
               (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  std::array<uint32_t, 8> s = *sums;
  for (size_t i = 0; i < words.size(); ++i) {
    const uint32_t e = s[4], a = s[0];
    const uint32_t first = s[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                           ((e & s[5]) ^ (~e & s[6])) + constants[i] + words[i];
    const uint32_t second = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
                            ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    s = {first + second, s[0], s[1], s[2], s[3] + first, s[4], s[5], s[6]};
  }
  for (size_t i = 0; i < s.size(); ++i) (*sums)[i] += s[i];
}

}  // namespace

std::string Sha256Hex(std::string_view bytes) {
  const auto constants = Fractions([](long double n) { return std::cbrt(n); });
  std::array<uint32_t, 8> sums{};
  std::ranges::copy_n(Fractions([](long double n) { return std::sqrt(n); }).begin(), 8,
                      sums.begin());
  const size_t whole = bytes.size() / kBlock * kBlock;
  for (size_t at = 0; at < whole; at += kBlock) AddBlock(&bytes[at], constants, &sums);
  std::string rest(bytes.substr(whole));
  rest += '\x80';
  while (rest.size() % kBlock != kBlock - sizeof(uint64_t)) rest += '\0';
  const uint64_t bits = uint64_t{bytes.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) rest += static_cast<char>(bits >> shift);
  for (size_t at = 0; at < rest.size(); at += kBlock) AddBlock(&rest[at], constants, &sums);
  std::string text;
  for (const uint32_t sum : sums) {
    for (int shift = 28; shift >= 0; shift -= 4) text += "0123456789abcdef"[sum >> shift & 15];
  }
  return text;
}

}  // namespace crema
