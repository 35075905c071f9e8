// Bounds for the number of boxes.
#include "data/records/box_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "data/record_sets.h"
#include "data/records/annotated_datum.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using Kind = OrderOptions::Kind;

std::string WithBoxes(int boxes) {
  AnnotatedDatum record;
  *record.mutable_datum() = testing::GrayDatum(2, 2, 1);
  AnnotationGroup* group = record.add_annotation_group();
  for (int i = 0; i < boxes; ++i) group->add_annotation()->mutable_bbox()->set_xmax(1);
  return record.SerializeAsString();
}

TEST(BoxBounds, BoxesAreCountedWithoutDecoding) {
  const std::string bytes = WithBoxes(2);
  EXPECT_EQ(CountBoxes(bytes), 2u);
  EXPECT_EQ(CountBoxes(""), 0u);
  EXPECT_EQ(CountBoxes(bytes.substr(0, bytes.size() - 3)), 0u);
  EXPECT_EQ(CountBoxes("\xFF\xFF\xFF"), 0u);
}

TEST(BoxBounds, AreThoseOfTheWholeSetWhereverTheReaderStands) {
  const test::TempDir temp;
  for (const DataParameter::DB backend : {DataParameter::LMDB, DataParameter::LEVELDB}) {
    if (!testing::CanWrite(backend, temp)) continue;
    const std::string path = temp.File(DataParameter::DB_Name(backend));
    const auto writer = CreateRecords(path, backend);
    writer->Put("a", WithBoxes(2));
    writer->Put("b", WithBoxes(1));
    writer->Put("c", WithBoxes(0));
    writer->Close();
    const auto reader = OpenRecords(path);
    reader->Next();
    const auto batch = [&](uint64_t size, Kind order) {
      return FindBoxBounds(*reader, size, order, {}).batch;
    };
    EXPECT_EQ(batch(1, Kind::kInOrder), 2u);
    EXPECT_EQ(batch(2, Kind::kInOrder), 3u);
    EXPECT_EQ(batch(7, Kind::kInOrder), 8u);
    // The last record of an epoch may be the first of the next.
    EXPECT_EQ(batch(2, Kind::kShuffled), 4u);
    EXPECT_EQ(batch(7, Kind::kBlocks), 9u);
    EXPECT_EQ(FindBoxBounds(*reader, 7, Kind::kInOrder, {}).record, 2u);
  }
}

// Finds the most boxes of a shard's batch, for any start, in the orders of many epochs.
uint64_t MostSeen(const std::vector<uint64_t>& boxes, uint64_t batch, const OrderOptions& order,
                  const Shard& shard) {
  SampleOrder samples(boxes.size(), order);
  std::vector<uint64_t> seen;
  for (uint64_t position = 0; position < 1500; ++position) {
    seen.push_back(boxes[samples.SampleAt(shard.Ordinal(position))]);
  }
  uint64_t most = 0;
  for (size_t begin = 0; begin + batch <= seen.size(); ++begin) {
    const auto from = seen.begin() + static_cast<ptrdiff_t>(begin);
    most = std::max(most, std::accumulate(from, from + static_cast<ptrdiff_t>(batch), uint64_t{0}));
  }
  return most;
}

TEST(BoxBounds, HoldForEveryBatchOfEveryOrderAndShard) {
  const std::vector<std::vector<uint64_t>> sets = {
      {9, 0, 1}, {3}, {0, 0}, {1, 2, 3, 4}, {100, 1, 1, 1, 1, 1, 1}, {0, 5, 5, 0, 5, 1}};
  for (const std::vector<uint64_t>& boxes : sets) {
    for (uint64_t batch = 1; batch <= 17; ++batch) {
      for (const OrderOptions& order : {OrderOptions{}, OrderOptions{.kind = Kind::kShuffled},
                                        OrderOptions{.kind = Kind::kBlocks, .block = 2}}) {
        for (uint64_t world = 1; world <= 4; ++world) {
          for (uint64_t rank = 0; rank < world; ++rank) {
            const Shard shard{.rank = rank, .world = world};
            const uint64_t bound = BoundBoxes(boxes, batch, order.kind, shard).batch;
            ASSERT_LE(MostSeen(boxes, batch, order, shard), bound)
                << boxes.size() << " records, batch " << batch << ", " << rank << " of " << world;
          }
        }
      }
    }
  }
}

// The bounds are tight.
TEST(BoxBounds, AreTheLeastThatHold) {
  const std::vector<uint64_t> boxes = {4, 0, 1, 2};
  for (uint64_t batch = 1; batch <= 6; ++batch) {
    const OrderOptions shuffled{.kind = Kind::kShuffled};
    EXPECT_EQ(BoundBoxes(boxes, batch, shuffled.kind, {}).batch,
              MostSeen(boxes, batch, shuffled, {}));
  }
  EXPECT_EQ(BoundBoxes({4, 0, 1, 2}, 4, Kind::kInOrder, {}).batch, 7u);
}

TEST(BoxBounds, HugeBatchesTakeNoTime) {
  constexpr uint64_t kBatch = uint64_t{1} << 31;
  EXPECT_EQ(BoundBoxes({3}, kBatch, Kind::kShuffled, {}).batch, 3 * kBatch);
  EXPECT_EQ(BoundBoxes({3, 3}, kBatch, Kind::kShuffled, {.rank = 0, .world = 4}).batch, 3 * kBatch);
}

}  // namespace
}  // namespace crema
