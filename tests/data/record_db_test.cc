#include "data/record_db.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"

namespace crema {
namespace {

TEST(RecordDb, RecordsComeInTheOrderOfTheirKeysAgainAndAgain) {
  const test::TempDir temp;
  const auto writer = CreateRecords(temp.File("set"), DataParameter::LMDB);
  writer->Put("b", "2");
  writer->Put("a", "1");
  writer->Put("c", "3");
  writer->Close();
  const auto reader = OpenRecords(temp.File("set"));
  EXPECT_EQ(reader->count(), 3U);
  std::string keys;
  for (int i = 0; i < 4; ++i) keys += reader->Next().key;
  EXPECT_EQ(keys, "abca");
  reader->Seek(5);
  EXPECT_EQ(reader->Next().value, "3");
}

}  // namespace
}  // namespace crema
