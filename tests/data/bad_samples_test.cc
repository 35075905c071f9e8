#include "data/pipeline/bad_samples.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/deferred_warnings.h"
#include "core/strings.h"
#include "data/expect_error.h"
#include "data/pipeline/prefetcher.h"

namespace crema {
namespace {

using testing::ExpectError;

constexpr int64_t kNumbersInBatch = 5;

struct Trouble {
  std::set<uint64_t> unreadable = {};
  std::set<uint64_t> broken = {};
  ErrorCode code = ErrorCode::kDataLoss;
};

// Samples are their ordinals. A failed read does not move the source.
class NumberSource final : public RecordSource {
 public:
  explicit NumberSource(Trouble trouble) : trouble_(std::move(trouble)) {}
  void Seek(uint64_t position) override { position_ = position; }
  void Read(Record* record) override {
    if (trouble_.unreadable.contains(position_)) {
      Fail(trouble_.code, StrCat("cannot read ", position_));
    }
    record->ordinal = position_++;
    record->storage = StrCat("number ", record->ordinal);
    record->key = record->storage;
  }

 private:
  const Trouble trouble_;
  uint64_t position_ = 0;
};

class NumberDecoder final : public SampleDecoder {
 public:
  explicit NumberDecoder(Trouble trouble) : trouble_(std::move(trouble)) {}
  void Decode(const Record& record, std::span<std::byte* const> places) override {
    const auto value = static_cast<float>(record.ordinal);
    std::memcpy(places[0], &value, sizeof value);  // half written samples must not be seen
    if (trouble_.broken.contains(record.ordinal)) Fail(trouble_.code, "it is broken");
    std::memcpy(places[1], &value, sizeof value);
  }

 private:
  const Trouble trouble_;
};

Prefetcher MakeNumbers(const Trouble& trouble, PrefetchOptions options) {
  options.outputs = {{Shape{kNumbersInBatch}, DType::kF32}, {Shape{kNumbersInBatch}, DType::kF32}};
  return Prefetcher(std::move(options), std::make_unique<NumberSource>(trouble),
                    [trouble] { return std::make_unique<NumberDecoder>(trouble); });
}

std::vector<int> PopNumbers(Prefetcher* prefetcher, int batches) {
  Tensor values{Shape{kNumbersInBatch}, DType::kF32};
  Tensor labels{Shape{kNumbersInBatch}, DType::kF32};
  const TensorView views[] = {values.view(), labels.view()};
  std::vector<int> all;
  for (int n = 0; n < batches; ++n) {
    prefetcher->Pop(views);
    for (const float value : values.view().span<float>()) all.push_back(static_cast<int>(value));
    EXPECT_EQ(std::memcmp(values.view().raw(), labels.view().raw(), values.view().bytes()), 0);
  }
  return all;
}

TEST(ReplaceBadSamples, TakesTheNearestGoodOneAndGoesRound) {
  const std::vector<uint8_t> bad = {1, 0, 1, 1, 0, 1};
  EXPECT_EQ(ReplaceBadSamples(bad, OnBadSample::kSkip), (std::vector<size_t>{1, 1, 4, 4, 4, 1}));
  EXPECT_EQ(ReplaceBadSamples(bad, OnBadSample::kRepeat), (std::vector<size_t>{4, 1, 1, 1, 4, 4}));
}

TEST(BadSamples, AreSkippedOrRepeatedTheSameForAnyNumberOfThreads) {
  const Trouble trouble{.unreadable = {1, 10, 11}, .broken = {2, 9, 14, 21}};
  for (const int threads : {1, 2, 3, 8}) {
    for (const size_t depth : {1, 4}) {
      Prefetcher skip = MakeNumbers(trouble, {.outputs = {},
                                              .depth = depth,
                                              .decode_threads = threads,
                                              .on_bad_sample = OnBadSample::kSkip});
      EXPECT_EQ(PopNumbers(&skip, 5),
                (std::vector<int>{0,  3,  3,  3,  4,  5,  6,  7,  8,  5,  12, 12, 12,
                                  13, 12, 15, 16, 17, 18, 19, 20, 22, 22, 23, 24}));
      EXPECT_EQ(skip.bad_samples(), 7u);
      Prefetcher repeat = MakeNumbers(trouble, {.outputs = {},
                                                .depth = depth,
                                                .decode_threads = threads,
                                                .on_bad_sample = OnBadSample::kRepeat});
      EXPECT_EQ(PopNumbers(&repeat, 5),
                (std::vector<int>{0,  0,  0,  3,  4,  5,  6,  7,  8,  8,  13, 13, 12,
                                  13, 13, 15, 16, 17, 18, 19, 20, 20, 22, 23, 24}));
    }
  }
}

TEST(BadSamples, ResumedRunsGoOnTheSame) {
  const Trouble trouble{.unreadable = {1, 10, 11}, .broken = {2, 9, 14, 21}};
  const PrefetchOptions options{
      .outputs = {}, .decode_threads = 3, .on_bad_sample = OnBadSample::kSkip, .max_bad = 6};
  Prefetcher whole = MakeNumbers(trouble, options);
  PopNumbers(&whole, 2);
  const uint64_t bad = whole.bad_samples();
  EXPECT_EQ(bad, 3u);
  const std::vector<int> expected = PopNumbers(&whole, 2);
  Prefetcher resumed = MakeNumbers(trouble, options);
  resumed.Restore(2 * kNumbersInBatch, bad);
  EXPECT_EQ(PopNumbers(&resumed, 2), expected);
  EXPECT_EQ(resumed.bad_samples(), whole.bad_samples());
  // The seventh is one too many, in both.
  for (Prefetcher* prefetcher : {&whole, &resumed}) {
    ExpectError(ErrorCode::kDataLoss, "there are 7 bad samples, and max_bad allows 6",
                [&] { PopNumbers(prefetcher, 1); });
  }
}

TEST(BadSamples, NamesOfReplacedSamplesAreThoseOfWhatIsThere) {
  Prefetcher prefetcher = MakeNumbers({.unreadable = {1}, .broken = {2}},
                                      {.outputs = {}, .on_bad_sample = OnBadSample::kSkip});
  PopNumbers(&prefetcher, 1);
  EXPECT_EQ(prefetcher.SampleName(1), "number 3");
  EXPECT_EQ(prefetcher.SampleName(2), "number 3");
  EXPECT_EQ(prefetcher.SampleName(4), "number 4");
  PopNumbers(&prefetcher, 1);
  EXPECT_EQ(prefetcher.SampleName(1), "number 6");
}

TEST(BadSamples, EachIsToldWithItsNameAndReasonInOrder) {
  const auto deferred_warnings = std::make_shared<DeferredWarnings>();
  Prefetcher prefetcher =
      MakeNumbers({.unreadable = {7}, .broken = {2, 6}}, {.outputs = {},
                                                          .on_bad_sample = OnBadSample::kRepeat,
                                                          .deferred_warnings = deferred_warnings});
  PopNumbers(&prefetcher, 2);
  const std::vector<std::string> warnings = deferred_warnings->Take();
  ASSERT_EQ(warnings.size(), 3u);
  EXPECT_EQ(warnings[0],
            "bad sample 1: 'number 2': it is broken; the good one before it in its batch is used "
            "twice");
  EXPECT_NE(warnings[1].find("bad sample 2: 'number 6': it is broken"), std::string::npos)
      << warnings[1];
  EXPECT_NE(warnings[2].find("bad sample 3: cannot read 7"), std::string::npos) << warnings[2];
  EXPECT_TRUE(deferred_warnings->Take().empty());
}

TEST(BadSamples, TooManyEndTheRunAndNameTheLast) {
  const auto deferred_warnings = std::make_shared<DeferredWarnings>();
  Prefetcher prefetcher =
      MakeNumbers({.unreadable = {7}, .broken = {2, 13}}, {.outputs = {},
                                                           .on_bad_sample = OnBadSample::kSkip,
                                                           .max_bad = 2,
                                                           .deferred_warnings = deferred_warnings});
  PopNumbers(&prefetcher, 2);
  for (int again = 0; again < 2; ++again) {
    ExpectError(ErrorCode::kDataLoss,
                "there are 3 bad samples, and max_bad allows 2; the last is: 'number 13': it is "
                "broken",
                [&] { PopNumbers(&prefetcher, 1); });
    EXPECT_EQ(prefetcher.position(), static_cast<uint64_t>(2 * kNumbersInBatch));
    EXPECT_EQ(prefetcher.bad_samples(), 3u);
  }
  EXPECT_EQ(deferred_warnings->Take().size(), 3u);
}

TEST(BadSamples, ABatchWithoutAGoodOneIsAnError) {
  Prefetcher prefetcher = MakeNumbers({.unreadable = {5, 6}, .broken = {7, 8, 9}},
                                      {.outputs = {}, .on_bad_sample = OnBadSample::kSkip});
  PopNumbers(&prefetcher, 1);
  ExpectError(ErrorCode::kDataLoss, "all 5 samples of a batch are bad",
              [&] { PopNumbers(&prefetcher, 1); });
}

TEST(BadSamples, MissingAndUnreadableOnesAreBadAndOtherErrorsAreNot) {
  for (const ErrorCode code : {ErrorCode::kNotFound, ErrorCode::kIoFailure, ErrorCode::kDataLoss}) {
    Prefetcher prefetcher = MakeNumbers({.unreadable = {1}, .broken = {3}, .code = code},
                                        {.outputs = {}, .on_bad_sample = OnBadSample::kSkip});
    EXPECT_EQ(PopNumbers(&prefetcher, 1), (std::vector<int>{0, 2, 2, 4, 4}));
  }
  for (const ErrorCode code : {ErrorCode::kInvalidArgument, ErrorCode::kUnsupported,
                               ErrorCode::kOutOfMemory, ErrorCode::kInternal}) {
    Prefetcher reading = MakeNumbers({.unreadable = {1}, .code = code},
                                     {.outputs = {}, .on_bad_sample = OnBadSample::kSkip});
    ExpectError(code, "cannot read 1", [&] { PopNumbers(&reading, 1); });
    Prefetcher decoding = MakeNumbers({.broken = {1}, .code = code},
                                      {.outputs = {}, .on_bad_sample = OnBadSample::kSkip});
    ExpectError(code, "it is broken", [&] { PopNumbers(&decoding, 1); });
  }
}

TEST(DeferredWarnings, AreBoundedWhereNobodyTakesThem) {
  DeferredWarnings deferred_warnings;
  for (size_t i = 0; i < DeferredWarnings::kMost + 7; ++i) deferred_warnings.Add(std::to_string(i));
  const std::vector<std::string> taken = deferred_warnings.Take();
  ASSERT_EQ(taken.size(), DeferredWarnings::kMost + 1);
  EXPECT_EQ(taken.front(), "0");
  EXPECT_EQ(taken.back(), "7 more messages were left out");
}

}  // namespace
}  // namespace crema
