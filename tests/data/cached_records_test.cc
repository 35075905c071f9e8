#include "data/records/cached_records.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "core/error.h"
#include "crema.pb.h"
#include "data/batches/data_set_source.h"
#include "data/record_sets.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using testing::NumberedKey;

std::shared_ptr<FileCache> CacheOf(uint64_t bytes) {
  return std::make_shared<FileCache>(bytes, nullptr);
}

TEST(CachedRecords, AreReadOnce) {
  const TempDir temp;
  const std::string path = testing::WriteRecords(temp, DataParameter::TAR, 6);
  const auto reader = CacheRecords(OpenRecords(path), CacheOf(1 << 20));
  for (int n = 0; n < 6; ++n) EXPECT_EQ(reader->Next().key, NumberedKey(n));
  std::filesystem::remove_all(path);
  for (int n = 0; n < 9; ++n) {
    const KeyedRecord record = reader->Next();
    EXPECT_EQ(record.key, NumberedKey(n % 6));
    EXPECT_NE(record.value.find(testing::FakeJpeg(n % 6)), std::string_view::npos);
  }
  EXPECT_EQ(reader->At(4).key, NumberedKey(4));
  EXPECT_EQ(reader->Clone()->Next().key, NumberedKey(0));
}

TEST(CachedRecords, WhatDoesNotFitIsReadAgain) {
  const TempDir temp;
  for (const DataParameter::DB backend : testing::Backends(temp)) {
    const std::string path = testing::WriteRecords(temp, backend, 8);
    const auto reader = CacheRecords(OpenRecords(path), CacheOf(1500));  // a few of them
    for (int n = 0; n < 20; ++n) ASSERT_EQ(reader->Next().key, NumberedKey(n % 8));
    for (const int ordinal : {5, 1, 15, 7}) {
      reader->Seek(static_cast<uint64_t>(ordinal));
      ASSERT_EQ(reader->Next().key, NumberedKey(ordinal % 8));
      reader->Skip(3);
      ASSERT_EQ(reader->Next().key, NumberedKey((ordinal + 4) % 8));
      ASSERT_EQ(reader->At(6).key, NumberedKey(6));
      ASSERT_EQ(reader->Next().key, NumberedKey((ordinal + 5) % 8));
    }
  }
}

TEST(DecodedCache, WhatIsThereIsNotRead) {
  const TempDir temp;
  const std::string path = testing::WriteRecords(temp, DataParameter::TAR, 9);
  const auto cache = std::make_shared<DecodedCache>(1 << 20, nullptr);
  for (uint64_t n = 0; n < 9; ++n) {
    cache->Keep(n, {.key = NumberedKey(static_cast<int>(n)), .image = {}, .label = 0}, 0);
  }
  for (const OrderOptions& order :
       {OrderOptions{}, OrderOptions{.kind = OrderOptions::Kind::kShuffled},
        OrderOptions{.kind = OrderOptions::Kind::kBlocks, .block = 4}}) {
    DataSetSource source(OpenRecords(path), {.order = order, .decoded = cache});
    std::filesystem::rename(path, path + "x");
    for (int i = 0; i < 20; ++i) {
      Record record;
      source.Read(&record);
      EXPECT_EQ(record.key, NumberedKey(static_cast<int>(record.entry)));
    }
    std::filesystem::rename(path + "x", path);
  }
}

}  // namespace
}  // namespace crema
