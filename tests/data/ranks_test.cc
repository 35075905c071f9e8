// With several training processes, each image of a list, each row of HDF5 files, and each record
// with boxes is in exactly one process per epoch. data_set_source_test.cc tests the same for all
// formats of records.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/strings.h"
#include "core/tensor.h"
#include "data/batches/image_batches.h"
#include "support/temp_dir.h"
#ifdef CREMA_HAVE_HDF5
#include "data/batches/hdf5_batches.h"
#include "data/hdf5/hdf5_appender.h"
#endif
#ifdef CREMA_HAVE_OPENCV
#include <google/protobuf/text_format.h>

#include "crema.pb.h"
#include "data/annotated_sets.h"
#include "layers/input/record_layer.h"
#endif

namespace crema {
namespace {

using test::TempDir;

constexpr int kSamples = 23;  // a multiple of no number of processes above 1
constexpr int kEpochs = 3;

// `make` opens the source of one process; `number` identifies the sample of a record.
template <typename Make, typename Number>
void ExpectEachOnce(Make&& make, Number&& number) {
  for (uint64_t world = 1; world <= 4; ++world) {
    std::vector<std::multiset<int>> epochs(kEpochs);
    for (uint64_t rank = 0; rank < world; ++rank) {
      const Shard shard{.rank = rank, .world = world};
      const std::unique_ptr<RecordSource> source = make(shard);
      std::vector<int> mine;
      for (uint64_t p = 0; shard.Ordinal(p) < kEpochs * kSamples; ++p) {
        Record record;
        source->Read(&record);
        EXPECT_EQ(record.ordinal, shard.Ordinal(p));
        mine.push_back(number(record));
        epochs[record.ordinal / kSamples].insert(mine.back());
      }
      const std::unique_ptr<RecordSource> resumed = make(shard);
      for (const size_t start : {size_t{5}, mine.size() - 1, size_t{0}, mine.size() / 2}) {
        resumed->Seek(start);
        Record record;
        resumed->Read(&record);
        EXPECT_EQ(number(record), mine[start]) << rank << " of " << world;
      }
    }
    for (const std::multiset<int>& epoch : epochs) {
      ASSERT_EQ(epoch.size(), static_cast<size_t>(kSamples));
      for (int n = 0; n < kSamples; ++n) ASSERT_EQ(epoch.count(n), 1U) << world << " processes";
    }
  }
}

TEST(Ranks, SeeEachImageOfAListOnceInAnEpoch) {
  const TempDir temp;
  std::string lines;
  for (int n = 0; n < kSamples; ++n) lines += StrCat("image", n, " 1\n");
  const auto list = std::make_shared<const ImageList>(temp.Write("list", lines), "");
  for (const bool shuffle : {false, true}) {
    ExpectEachOnce(
        [&](Shard shard) {
          return std::make_unique<ImageFileSource>(
              list, ImageFileSource::Options{.shard = shard, .shuffle = shuffle});
        },
        [](const Record& record) { return static_cast<int>(record.entry); });
  }
}

#ifdef CREMA_HAVE_HDF5
TEST(Ranks, SeeEachRowOfHdf5FilesOnceInAnEpoch) {
  const TempDir temp;
  std::string lines;
  int next = 0;
  for (const int count : {9, 1, kSamples - 10}) {
    Tensor rows(Shape{count, 2}, DType::kF32);
    for (int i = 0; i < count; ++i, ++next) {
      rows.view().data<float>()[2 * i] = rows.view().data<float>()[2 * i + 1] =
          static_cast<float>(next);
    }
    const std::string path = temp.File(StrCat(count, ".h5"));
    Hdf5Appender(path).Append("data", rows.view());
    lines += path + "\n";
  }
  const std::string list = temp.Write("list", lines);
  for (const bool shuffle : {false, true}) {
    const uint64_t whole_bytes = shuffle ? 0 : uint64_t{1} << 20;
    ExpectEachOnce(
        [&](Shard shard) {
          return std::make_unique<Hdf5Source>(
              Hdf5Set(list, {"data"}),
              Hdf5RowReader::Options{
                  .shuffle = shuffle, .whole_bytes = whole_bytes, .block_bytes = 24},
              shard);
        },
        [](const Record& record) {
          return static_cast<int>(*reinterpret_cast<const float*>(record.value.data()));
        });
  }
}
#endif

#ifdef CREMA_HAVE_OPENCV
// Opens them like the layers Data and AnnotatedData.
TEST(Ranks, SeeEachRecordWithBoxesOnceInAnEpoch) {
  const TempDir temp;
  for (const DataParameter::DB backend : {DataParameter::LMDB, DataParameter::LEVELDB}) {
    if (!testing::CanWrite(backend, temp)) continue;
    const std::string set = testing::WriteNumbered(temp, backend, kSamples);
    OpenedOnce records(set);
    for (const char* order : {"", "shuffle: true", "shuffle_buffer: 5"}) {
      for (const char* cache : {"", "cache: ENCODED cache_mb: 1", "cache: DECODED cache_mb: 1"}) {
        LayerParameter param;
        ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
            StrCat("name: 'boxes' data_param { source: '", set, "' } pipeline_param { ", order, " ",
                   cache, " }"),
            &param));
        ExpectEachOnce(
            [&](Shard shard) { return OpenStream(param, records, /*seed=*/1, shard).source; },
            [](const Record& record) {
              AnnotatedDatum annotated;
              EXPECT_TRUE(annotated.ParseFromArray(record.value.data(),
                                                   static_cast<int>(record.value.size())));
              const int number = std::stoi(std::string(record.key));
              EXPECT_EQ(annotated.annotation_group_size(), number % 4);
              return number;
            });
      }
    }
  }
}
#endif

}  // namespace
}  // namespace crema
