#include "data/pipeline/bounded_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace crema {
namespace {

constexpr uint64_t kValue = 1000;
constexpr uint64_t kEntry = kValue + FileCache::kEntryBytes;

TEST(BoundedCache, KeepsValuesUpToItsBoundAndSaysOnceThatItIsFull) {
  const auto deferred_warnings = std::make_shared<DeferredWarnings>();
  FileCache cache(3 * kEntry + kEntry - 1, deferred_warnings);
  const std::string value(kValue, 'x');
  for (uint64_t i = 0; i < 3; ++i) EXPECT_NE(cache.Keep(i, value, kValue), nullptr);
  EXPECT_EQ(cache.bytes(), 3 * kEntry);
  EXPECT_TRUE(deferred_warnings->Take().empty());
  for (uint64_t i = 3; i < 6; ++i) EXPECT_EQ(cache.Keep(i, value, kValue), nullptr);
  EXPECT_EQ(cache.bytes(), 3 * kEntry);
  const std::vector<std::string> warnings = deferred_warnings->Take();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("the cache is full with 3 entries"), std::string::npos) << warnings[0];
  ASSERT_NE(cache.Find(2), nullptr);
  EXPECT_EQ(*cache.Find(2), value);
  EXPECT_EQ(cache.Find(3), nullptr);
}

TEST(BoundedCache, TheFirstValueOfANumberStays) {
  FileCache cache(uint64_t{1} << 20, nullptr);
  const std::string* kept = cache.Keep(1, "first", 5);
  EXPECT_EQ(cache.Keep(1, "second", 6), kept);
  EXPECT_EQ(*kept, "first");
  EXPECT_EQ(cache.bytes(), 5 + FileCache::kEntryBytes);
}

TEST(BoundedCache, CacheOfSizeZeroKeepsNothing) {
  FileCache cache(0, nullptr);
  EXPECT_EQ(cache.Keep(1, "", 0), nullptr);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(BoundedCache, ManyThreadsKeepToTheBound) {
  constexpr uint64_t kNumbers = 200;
  FileCache cache(kNumbers / 2 * kEntry, nullptr);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t] {
      for (uint64_t i = 0; i < kNumbers; ++i) {
        const uint64_t number = (i * 7 + t * 50) % kNumbers;
        const auto letter = static_cast<char>('a' + number % 26);
        const std::string* found = cache.Find(number);
        if (found == nullptr) found = cache.Keep(number, std::string(kValue, letter), kValue);
        if (found != nullptr) {
          EXPECT_EQ((*found)[kValue - 1], letter);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.bytes(), kNumbers / 2 * kEntry);
}

}  // namespace
}  // namespace crema
