#include "data/pipeline/prefetcher.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <semaphore>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/strings.h"
#include "data/expect_error.h"

namespace crema {
namespace {

using testing::ExpectError;

constexpr uint64_t kNever = UINT64_MAX;
constexpr int64_t kHashesInBatch = 7;
constexpr int64_t kValues = 33;

// Counts; the value of a record is its ordinal in text.
class CountingSource final : public RecordSource {
 public:
  explicit CountingSource(uint64_t fails_at = kNever, std::atomic<uint64_t>* reads = nullptr)
      : fails_at_(fails_at), reads_(reads) {}
  void Seek(uint64_t position) override { position_ = position; }
  void Read(Record* record) override {
    if (position_ == fails_at_) {
      Fail(ErrorCode::kIoFailure, StrCat("cannot read ", position_));
    }
    if (reads_ != nullptr) ++*reads_;
    record->ordinal = position_++;
    record->storage = std::to_string(record->ordinal);
    record->value = record->storage;
  }

 private:
  const uint64_t fails_at_;
  std::atomic<uint64_t>* const reads_;
  uint64_t position_ = 0;
};

// Random numbers that depend on the record, and its ordinal as label.
class HashingDecoder final : public SampleDecoder {
 public:
  explicit HashingDecoder(uint64_t fails_at = kNever) : fails_at_(fails_at) {}
  void Decode(const Record& record, std::span<std::byte* const> places) override {
    if (record.ordinal >= fails_at_) {
      Fail(ErrorCode::kDataLoss, StrCat("cannot decode ", record.ordinal));
    }
    const RandomStream random(1, HashName(record.value));
    auto* values = reinterpret_cast<float*>(places[0]);
    for (int64_t i = 0; i < kValues; ++i) {
      values[i] = static_cast<float>(random.Uniform(static_cast<uint64_t>(i)));
    }
    *reinterpret_cast<float*>(places[1]) = static_cast<float>(record.ordinal);
  }

 private:
  const uint64_t fails_at_;
};

struct PoppedBatch {
  Tensor values{Shape{kHashesInBatch, kValues}, DType::kF32};
  Tensor labels{Shape{kHashesInBatch}, DType::kF32};

  void Pop(Prefetcher* prefetcher) {
    const TensorView views[] = {values.view(), labels.view()};
    prefetcher->Pop(views);
  }
  std::string Bytes() const {
    const auto bytes = [](const Tensor& tensor) {
      return std::string(static_cast<const char*>(tensor.view().raw()), tensor.view().bytes());
    };
    return bytes(values) + bytes(labels);
  }
};

PrefetchOptions Options(int threads, size_t depth = 3) {
  return {.outputs = {{Shape{kHashesInBatch, kValues}, DType::kF32},
                      {Shape{kHashesInBatch}, DType::kF32}},
          .depth = depth,
          .decode_threads = threads};
}

Prefetcher MakeHashing(int threads, size_t depth = 3, uint64_t read_fails_at = kNever,
                       uint64_t decode_fails_at = kNever) {
  return Prefetcher(
      Options(threads, depth), std::make_unique<CountingSource>(read_fails_at),
      [decode_fails_at] { return std::make_unique<HashingDecoder>(decode_fails_at); });
}

std::vector<std::string> PopBytes(Prefetcher* prefetcher, int batches) {
  PoppedBatch batch;
  std::vector<std::string> all;
  for (int i = 0; i < batches; ++i) {
    batch.Pop(prefetcher);
    all.push_back(batch.Bytes());
  }
  return all;
}

TEST(Prefetcher, SamplesComeInOrder) {
  Prefetcher prefetcher = MakeHashing(2);
  PoppedBatch batch;
  for (int64_t n = 0; n < 40; ++n) {
    batch.Pop(&prefetcher);
    for (int64_t i = 0; i < kHashesInBatch; ++i) {
      ASSERT_EQ(batch.labels.view().data<float>()[i], static_cast<float>(n * kHashesInBatch + i));
    }
    EXPECT_EQ(prefetcher.position(), static_cast<uint64_t>((n + 1) * kHashesInBatch));
  }
}

TEST(Prefetcher, BytesDoNotDependOnThreadsOrDepth) {
  Prefetcher reference = MakeHashing(1, 1);
  const std::vector<std::string> expected = PopBytes(&reference, 50);
  for (const int threads : {1, 2, 3, 8}) {
    for (const size_t depth : {1, 2, 5}) {
      Prefetcher prefetcher = MakeHashing(threads, depth);
      EXPECT_EQ(PopBytes(&prefetcher, 50), expected) << threads << " threads, depth " << depth;
    }
  }
}

// Stores keys in the memory of the record, which is reused by later batches.
class KeyedSource final : public RecordSource {
 public:
  void Seek(uint64_t position) override { position_ = position; }
  void Read(Record* record) override {
    record->ordinal = position_++;
    record->storage = StrCat("a key that is longer than a short string ", record->ordinal);
    record->key = record->value = record->storage;
  }

 private:
  uint64_t position_ = 0;
};

TEST(Prefetcher, SampleNamesAreThoseOfTheBatchThatWasPopped) {
  for (const size_t depth : {1, 2, 5}) {
    Prefetcher prefetcher(Options(2, depth), std::make_unique<KeyedSource>(),
                          [] { return std::make_unique<HashingDecoder>(); });
    EXPECT_EQ(prefetcher.SampleName(0), "");
    PoppedBatch batch;
    for (int64_t n = 0; n < 30; ++n) {
      if (n == 20) prefetcher.Restore(7 * kHashesInBatch);
      batch.Pop(&prefetcher);
      for (int64_t i = 0; i < kHashesInBatch; ++i) {
        const float ordinal = batch.labels.view().data<float>()[i];
        ASSERT_EQ(prefetcher.SampleName(i),
                  StrCat("a key that is longer than a short string ", ordinal));
      }
      EXPECT_EQ(prefetcher.SampleName(kHashesInBatch), "");
    }
    EXPECT_GT(prefetcher.WaitedSeconds(), 0);
  }
}

TEST(Prefetcher, RestoredPositionGivesTheSameBytes) {
  Prefetcher reference = MakeHashing(2);
  const std::vector<std::string> expected = PopBytes(&reference, 12);
  Prefetcher prefetcher = MakeHashing(3);
  prefetcher.Restore(5 * kHashesInBatch);
  EXPECT_EQ(PopBytes(&prefetcher, 7),
            std::vector<std::string>(expected.begin() + 5, expected.end()));
  prefetcher.Restore(2 * kHashesInBatch);  // backwards, while batches are waiting
  EXPECT_EQ(prefetcher.position(), static_cast<uint64_t>(2 * kHashesInBatch));
  EXPECT_EQ(PopBytes(&prefetcher, 1)[0], expected[2]);
}

TEST(Prefetcher, ReadsAheadNoFurtherThanItsDepth) {
  std::atomic<uint64_t> reads = 0;
  {
    Prefetcher prefetcher(Options(2, 2), std::make_unique<CountingSource>(kNever, &reads),
                          [] { return std::make_unique<HashingDecoder>(); });
    EXPECT_EQ(reads, 0u);  // nothing starts before the first Pop
    PopBytes(&prefetcher, 10);
  }
  EXPECT_GE(reads, static_cast<uint64_t>(10 * kHashesInBatch));
  EXPECT_LE(reads, static_cast<uint64_t>(12 * kHashesInBatch));
}

TEST(Prefetcher, DecodeErrorComesWithItsBatchAndStays) {
  for (const int threads : {1, 2, 8}) {
    Prefetcher prefetcher = MakeHashing(threads, 4, kNever, 3 * kHashesInBatch + 2);
    PopBytes(&prefetcher, 3);
    for (int again = 0; again < 2; ++again) {
      // Later samples fail as well; the first one is reported.
      ExpectError(ErrorCode::kDataLoss, "cannot decode 23", [&] { PopBytes(&prefetcher, 1); });
      EXPECT_EQ(prefetcher.position(), static_cast<uint64_t>(3 * kHashesInBatch));
    }
    prefetcher.Restore(0);
    PopBytes(&prefetcher, 3);
  }
}

TEST(Prefetcher, ReadErrorComesWithItsBatch) {
  for (const uint64_t at : {2 * kHashesInBatch, 2 * kHashesInBatch + 1, 3 * kHashesInBatch - 1}) {
    Prefetcher prefetcher = MakeHashing(2, 4, at);
    PopBytes(&prefetcher, 2);
    ExpectError(ErrorCode::kIoFailure, StrCat("cannot read ", at),
                [&] { PopBytes(&prefetcher, 1); });
  }
}

TEST(Prefetcher, ErrorOfTheDecoderItselfIsCarried) {
  Prefetcher prefetcher(
      Options(2), std::make_unique<CountingSource>(),
      []() -> std::unique_ptr<SampleDecoder> { Fail(ErrorCode::kNotFound, "no decoder"); });
  ExpectError(ErrorCode::kNotFound, "no decoder", [&] { PopBytes(&prefetcher, 1); });
}

// Announces each sample it starts; counts the decoders.
class AnnouncingDecoder final : public SampleDecoder {
 public:
  explicit AnnouncingDecoder(std::counting_semaphore<>* begun, std::atomic<int>* alive = nullptr)
      : begun_(begun), alive_(alive) {
    if (alive_ != nullptr) ++*alive_;
  }
  ~AnnouncingDecoder() override {
    if (alive_ != nullptr) --*alive_;
  }
  void Decode(const Record&, std::span<std::byte* const>) override { begun_->release(); }

 private:
  std::counting_semaphore<>* const begun_;
  std::atomic<int>* const alive_;
};

TEST(Prefetcher, StopsWhileFullAndWhileWorking) {
  for (const int samples :
       {1, 3, 2 * static_cast<int>(kHashesInBatch), 3 * static_cast<int>(kHashesInBatch)}) {
    std::counting_semaphore<> begun(0);
    std::atomic<int> alive = 0;
    std::atomic<uint64_t> reads = 0;
    {
      Prefetcher prefetcher(Options(2, 2), std::make_unique<CountingSource>(kNever, &reads),
                            [&] { return std::make_unique<AnnouncingDecoder>(&begun, &alive); });
      PopBytes(&prefetcher, 1);
      // Including the popped batch there is room for three: then the ring is full.
      for (int i = 0; i < samples; ++i) begun.acquire();
      EXPECT_GT(alive, 0);
    }
    EXPECT_EQ(alive, 0) << "its threads have not ended";
    EXPECT_GE(reads, static_cast<uint64_t>(samples));
    EXPECT_LE(reads, 3 * kHashesInBatch);
  }
}

TEST(Prefetcher, AConsumerThatStopsStopsTheReading) {
  constexpr size_t kDepth = 3;
  for (const int threads : {1, 8}) {
    std::atomic<uint64_t> reads = 0;
    std::counting_semaphore<> begun(0);
    Prefetcher prefetcher(Options(threads, kDepth),
                          std::make_unique<CountingSource>(kNever, &reads),
                          [&] { return std::make_unique<AnnouncingDecoder>(&begun); });
    for (uint64_t pops = 1; pops <= 5; ++pops) {
      PopBytes(&prefetcher, 1);
      // The ring is full: everything that fits was decoded, and nothing more was read.
      const uint64_t room = (kDepth + pops) * kHashesInBatch;
      for (uint64_t n = pops == 1 ? 0 : room - kHashesInBatch; n < room; ++n) begun.acquire();
      EXPECT_EQ(reads, room);
    }
    EXPECT_FALSE(begun.try_acquire());
  }
}

// Values and labels of the next batch, in place.
struct ExternalBatch {
  std::byte* places[2] = {};

  std::string Bytes() const {
    return {reinterpret_cast<const char*>(places[0]), sizeof(float) * kHashesInBatch * kValues};
  }
};

TEST(Prefetcher, ExternalBatchesAreThoseThatArePopped) {
  Prefetcher copied = MakeHashing(1);
  for (const size_t depth : {1, 3}) {
    PrefetchOptions options = Options(2, depth);
    options.external = true;
    Prefetcher buffer_owner(options, std::make_unique<CountingSource>(),
                            [] { return std::make_unique<HashingDecoder>(); });
    copied.Restore(0);
    for (int n = 0; n < 30; ++n) {
      PoppedBatch expected;
      expected.Pop(&copied);
      ExternalBatch batch;
      buffer_owner.ExposeBuffers(batch.places);
      ASSERT_EQ(batch.Bytes() + std::string(reinterpret_cast<const char*>(batch.places[1]),
                                            sizeof(float) * kHashesInBatch),
                expected.Bytes());
      EXPECT_EQ(buffer_owner.position(), copied.position());
      std::memset(batch.places[0], 0x55, batch.Bytes().size());  // like in-place layers
    }
  }
}

TEST(Prefetcher, AnExternalBatchStaysUntilTheNextWhileTheRestOfTheRingFills) {
  constexpr size_t kDepth = 3;
  std::atomic<uint64_t> reads = 0;
  std::counting_semaphore<> begun(0);
  PrefetchOptions options = Options(2, kDepth);
  options.external = true;
  Prefetcher prefetcher(options, std::make_unique<CountingSource>(kNever, &reads),
                        [&] { return std::make_unique<AnnouncingDecoder>(&begun); });
  for (uint64_t external = 1; external <= 5; ++external) {
    ExternalBatch batch;
    prefetcher.ExposeBuffers(batch.places);
    std::memset(batch.places[0], 0x55, batch.Bytes().size());
    const std::string mine = batch.Bytes();
    const uint64_t room = (kDepth + external) * kHashesInBatch;
    for (uint64_t n = external == 1 ? 0 : room - kHashesInBatch; n < room; ++n) begun.acquire();
    EXPECT_EQ(reads, room);
    EXPECT_EQ(batch.Bytes(), mine);
  }
}

TEST(Prefetcher, AnErrorLeavesTheExternalBatchAsItIs) {
  PrefetchOptions options = Options(1, 2);
  options.external = true;
  Prefetcher prefetcher(options, std::make_unique<CountingSource>(),
                        [] { return std::make_unique<HashingDecoder>(kHashesInBatch); });
  ExternalBatch batch;
  prefetcher.ExposeBuffers(batch.places);
  const std::string mine = batch.Bytes();
  ExternalBatch next;
  ExpectError(ErrorCode::kDataLoss, "cannot decode 7",
              [&] { prefetcher.ExposeBuffers(next.places); });
  EXPECT_EQ(batch.Bytes(), mine);
  EXPECT_EQ(prefetcher.position(), static_cast<uint64_t>(kHashesInBatch));
}

TEST(Prefetcher, StopsWithoutEverStarting) {
  Prefetcher prefetcher = MakeHashing(2);
  EXPECT_EQ(prefetcher.position(), 0u);
}

}  // namespace
}  // namespace crema
