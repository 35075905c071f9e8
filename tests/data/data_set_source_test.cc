// Records in order, shuffled and in shards, for each format.
#include "data/batches/data_set_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "data/record_sets.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using Kind = OrderOptions::Kind;
using test::TempDir;

// Returns the labels of the next records, after checking that keys match values.
std::vector<int> Read(DataSetSource* source, int records) {
  std::vector<int> labels;
  Record record;
  for (int i = 0; i < records; ++i) {
    source->Read(&record);
    Datum datum;
    EXPECT_TRUE(datum.ParseFromArray(record.value.data(), static_cast<int>(record.value.size())));
    EXPECT_EQ(record.key, testing::NumberedKey(datum.label()));
    EXPECT_EQ(datum.data(), testing::FakeJpeg(datum.label()));
    EXPECT_TRUE(datum.encoded());
    labels.push_back(datum.label());
  }
  return labels;
}

std::vector<OrderOptions> Orders() {
  return {{},
          {.kind = Kind::kShuffled},
          {.kind = Kind::kBlocks, .block = 1},
          {.kind = Kind::kBlocks, .block = 5},
          {.kind = Kind::kBlocks, .block = 1000}};
}

TEST(DataSetSource, ShardsGiveEachEpochOnceTogether) {
  const TempDir temp;
  constexpr int kRecords = 23;  // divided by no number of processes above 1
  constexpr int kEpochs = 3;
  for (const DataParameter::DB backend : testing::Backends(temp)) {
    const std::string path = testing::WriteRecords(temp, backend, kRecords);
    for (const OrderOptions& order : Orders()) {
      for (uint64_t world = 1; world <= 4; ++world) {
        std::vector<std::multiset<int>> epochs(kEpochs);
        for (uint64_t rank = 0; rank < world; ++rank) {
          const Shard shard{.rank = rank, .world = world};
          DataSetSource source(OpenRecords(path), {.shard = shard, .order = order});
          for (uint64_t p = 0; shard.Ordinal(p) < kEpochs * kRecords; ++p) {
            epochs[shard.Ordinal(p) / kRecords].insert(Read(&source, 1)[0]);
          }
        }
        for (const std::multiset<int>& epoch : epochs) {
          ASSERT_EQ(epoch.size(), static_cast<size_t>(kRecords));
          for (int n = 0; n < kRecords; ++n) ASSERT_EQ(epoch.count(n), 1U);
        }
      }
    }
  }
}

TEST(DataSetSource, AGlobalStepHoldsTheSameSamplesForAnyNumberOfProcesses) {
  const TempDir temp;
  const std::string path = testing::WriteRecords(temp, DataParameter::LMDB, 10);
  const OrderOptions order{.kind = Kind::kShuffled};
  DataSetSource alone(OpenRecords(path), {.order = order});
  DataSetSource first(OpenRecords(path), {.shard = {.rank = 0, .world = 2}, .order = order});
  DataSetSource second(OpenRecords(path), {.shard = {.rank = 1, .world = 2}, .order = order});
  for (int step = 0; step < 12; ++step) {
    const std::vector<int> both = {Read(&first, 1)[0], Read(&second, 1)[0]};
    EXPECT_EQ(Read(&alone, 2), both);
  }
}

TEST(DataSetSource, AnyPositionGoesOnAsIfNothingHadBeen) {
  const TempDir temp;
  constexpr int kRecords = 13;
  constexpr int kReads = 45;
  for (const DataParameter::DB backend : testing::Backends(temp)) {
    const std::string path = testing::WriteRecords(temp, backend, kRecords);
    for (const OrderOptions& order : Orders()) {
      for (const Shard shard : {Shard{}, Shard{.rank = 1, .world = 3}}) {
        const DataSetSource::Options options{.shard = shard, .order = order};
        DataSetSource uninterrupted(OpenRecords(path), options);
        const std::vector<int> all = Read(&uninterrupted, kReads);
        DataSetSource source(OpenRecords(path), options);
        for (const int start : {17, 3, 4, 30, 0, 12, 13, 14, 29}) {
          source.Seek(static_cast<uint64_t>(start));
          const std::vector<int> expected(all.begin() + start, all.begin() + start + 15);
          ASSERT_EQ(Read(&source, 15), expected) << start;
          DataSetSource fresh(OpenRecords(path), options);
          fresh.Seek(static_cast<uint64_t>(start));
          ASSERT_EQ(Read(&fresh, 15), expected) << start;
        }
        source.Seek(2);
        Read(&source, 1);
        source.Seek(5);  // forwards, also inside of a block
        ASSERT_EQ(Read(&source, 3), std::vector<int>(all.begin() + 5, all.begin() + 8));
      }
    }
  }
}

TEST(DataSetSource, AllKindsOfDataSetsComeInTheSameOrder) {
  const TempDir temp;
  for (const OrderOptions& order : Orders()) {
    std::vector<int> expected;
    for (const DataParameter::DB backend : testing::Backends(temp)) {
      const TempDir folder;
      DataSetSource source(OpenRecords(testing::WriteRecords(folder, backend, 20)),
                           {.order = order});
      const std::vector<int> labels = Read(&source, 50);
      if (expected.empty()) expected = labels;
      EXPECT_EQ(labels, expected);
    }
    EXPECT_EQ(std::ranges::is_sorted(std::span(expected).first(20)),
              order.kind == Kind::kInOrder || order.block == 1);
  }
}

// Verifies that blocks are read sequentially.
class CountingReader final : public RecordReader {
 public:
  CountingReader(std::unique_ptr<RecordReader> reader, std::vector<uint64_t>* jumps)
      : reader_(std::move(reader)), jumps_(jumps) {}
  uint64_t count() const override { return reader_->count(); }
  KeyedRecord Next() override { return reader_->Next(); }
  void Seek(uint64_t ordinal) override {
    jumps_->push_back(ordinal);
    reader_->Seek(ordinal);
  }
  void Skip(uint64_t records) override { reader_->Skip(records); }
  KeyedRecord At(uint64_t ordinal) override {
    ADD_FAILURE() << "random access to " << ordinal;
    return reader_->At(ordinal);
  }
  std::unique_ptr<RecordReader> Clone() const override { return reader_->Clone(); }

 private:
  const std::unique_ptr<RecordReader> reader_;
  std::vector<uint64_t>* const jumps_;
};

TEST(DataSetSource, BlocksAreReadOneRecordAfterTheOther) {
  const TempDir temp;
  const std::string path = testing::WriteRecords(temp, DataParameter::TAR, 20);
  std::vector<uint64_t> jumps;
  DataSetSource source(std::make_unique<CountingReader>(OpenRecords(path), &jumps),
                       {.order = {.kind = Kind::kBlocks, .block = 6}});
  Read(&source, 60);
  EXPECT_LE(jumps.size(), 1U);
}

// A record that cannot be read throws when its turn comes; later ones can be read.
TEST(DataSetSource, ABadRecordIsAnErrorAtItsPlaceOnly) {
  const TempDir temp;
  const auto writer = CreateTarShards(temp.File("set.tar"));
  for (int n = 0; n < 8; ++n) {
    writer->Put(testing::NumberedKey(n),
                testing::EncodedDatum(testing::FakeJpeg(n), n).SerializeAsString());
  }
  writer->Close();
  // The label of record 5 becomes a letter.
  std::string bytes = temp.Read("set.tar");
  const size_t header = bytes.find("000005.cls");
  ASSERT_NE(header, std::string::npos);
  bytes[header + 512] = 'x';
  temp.Write("set.tar", bytes);
  for (const OrderOptions& order : Orders()) {
    DataSetSource source(OpenRecords(temp.File("set.tar")), {.order = order});
    std::set<int> seen;
    int errors = 0;
    for (uint64_t p = 0; p < 8; ++p) {
      Record record;
      try {
        source.Read(&record);
        seen.insert(std::stoi(std::string(record.key)));
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("'000005'"), std::string::npos) << error.what();
        ++errors;
        source.Seek(p + 1);
      }
    }
    EXPECT_EQ(errors, 1);
    EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 3, 4, 6, 7}));
  }
}

}  // namespace
}  // namespace crema
