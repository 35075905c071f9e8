#include "parallel/process_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/strings.h"
#include "parallel/transport.h"
#include "support/error_text.h"
#include "support/memory_ranks.h"

namespace crema::test {
namespace {

const std::vector<std::string> kNoErrors(3);

TEST(ProcessRanks, ExchangeNotesAgainAndAgain) {
  const auto errors = RunRanks(3, {}, [](ProcessRanks& ranks) {
    for (int round = 0; round < 100; ++round) {
      const auto notes =
          ranks.Exchange(ranks.rank(), {.number = 1.0 * ranks.rank(), .text = StrCat(round)});
      for (size_t r = 0; r < 3; ++r) {
        CREMA_CHECK(notes[r].number == static_cast<double>(r) && notes[r].text == StrCat(round));
      }
      CREMA_CHECK(ranks.Mean(ranks.rank(), ranks.rank()) == 1);
    }
  });
  EXPECT_EQ(errors, kNoErrors);
}

TEST(ProcessRanks, SumInTheOrderOfTheRanksWhateverTheBucket) {
  for (const size_t bucket_bytes : {1U, 12U, 1000U}) {
    const auto errors = RunRanks(3, {.bucket_bytes = bucket_bytes}, [](ProcessRanks& ranks) {
      const ExecContext context(1, 1);
      const std::vector<float> each = {1e8F, 1, -1e8F};  // another order has another sum
      std::vector<float> values(7, each[static_cast<size_t>(ranks.rank())]);
      values[6] = static_cast<float>(ranks.rank());
      for (int round = 0; round < 20; ++round) {
        std::vector<float> sums = values;
        ranks.collective().Sum(ranks.rank(), context, sums);
        for (size_t i = 0; i < 6; ++i) CREMA_CHECK(sums[i] == 1e8F + 1 - 1e8F);
        CREMA_CHECK(sums[6] == 3);
      }
      CREMA_CHECK(ranks.collective().IsIdle());
    });
    EXPECT_EQ(errors, kNoErrors);
  }
}

// Values of all sizes and signs; rank 0 has NaN, rank 1 infinities.
float ValueOf(int rank, size_t i) {
  if (i == 0) return rank == 0 ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
  if (i == 1 && rank == 1) return std::numeric_limits<float>::infinity();
  if (i == 2 && rank == 1) return -std::numeric_limits<float>::infinity();
  const auto seed = static_cast<float>(i * 37 + static_cast<size_t>(rank) * 11);
  return std::sin(seed) * std::exp2(std::fmod(seed, 20.0F) - 10);
}

TEST(ProcessRanks, SumRoundedValuesInTheOrderOfTheRanks) {
  constexpr size_t kCount = 5000;
  std::vector<std::vector<float>> sums(3, std::vector<float>(kCount));
  for (const size_t bucket_bytes : {size_t{400}, size_t{1} << 20U}) {
    const auto errors =
        RunRanks(3, {.wire = DType::kBF16, .bucket_bytes = bucket_bytes}, [&](ProcessRanks& ranks) {
          const int rank = ranks.rank();
          std::vector<float>& own = sums[static_cast<size_t>(rank)];
          for (size_t i = 0; i < kCount; ++i) own[i] = ValueOf(rank, i);
          ranks.collective().StartSum(rank, own);
          ranks.collective().FinishSums(rank);
        });
    EXPECT_EQ(errors, kNoErrors);
    for (const size_t rank : {1U, 2U}) {
      EXPECT_EQ(std::memcmp(sums[rank].data(), sums[0].data(), kCount * sizeof(float)), 0);
    }
    EXPECT_TRUE(std::isnan(sums[0][0]));
    EXPECT_EQ(sums[0][1], std::numeric_limits<float>::infinity());
    EXPECT_EQ(sums[0][2], -std::numeric_limits<float>::infinity());
    for (size_t i = 3; i < kCount; ++i) {
      float expected = BFloat16(ValueOf(0, i));
      float exact = 0;
      float size = 0;
      for (int r = 0; r < 3; ++r) {
        if (r > 0) expected += BFloat16(ValueOf(r, i));
        exact += ValueOf(r, i);
        size += std::abs(ValueOf(r, i));
      }
      ASSERT_EQ(sums[0][i], float{BFloat16(expected)}) << i;
      ASSERT_LE(std::abs(sums[0][i] - exact), size / 128) << i;  // twice half a unit of 8 bits
    }
  }
}

TEST(ProcessRanks, RoundGradientsOnly) {
  const auto errors = RunRanks(3, {.wire = DType::kBF16}, [&](ProcessRanks& ranks) {
    std::vector<float> values(3, 1.0F + 1.0F / 1024);
    ranks.collective().Sum(ranks.rank(), ExecContext(1, 1), values);
    CREMA_CHECK(values[0] == 3 + 3.0F / 1024);
    const TensorView blob(values.data(), Shape{3}, DType::kF32);
    ranks.collective().CopyFromFirst(ranks.rank(), ExecContext(1, 1), std::vector{blob});
    CREMA_CHECK(values[0] == 3 + 3.0F / 1024);
  });
  EXPECT_EQ(errors, kNoErrors);
}

TEST(ProcessRanks, NameTheOneWhoseSumInThePassHasAnotherSize) {
  const auto errors = RunRanks(2, {.timeout = 20}, [](ProcessRanks& ranks) {
    std::vector<double> values(ranks.rank() == 0 ? 2 : 3);
    ranks.collective().SumsInPass()->SumNow(values);
  });
  EXPECT_TRUE(Contains(errors[0], "rank 1 on host1 has sent 24 bytes where this rank expects 16"))
      << errors[0];
  EXPECT_TRUE(Contains(errors[1], "rank 0 on host0 has sent 16 bytes where this rank expects 24"))
      << errors[1];
}

TEST(ProcessRanks, SumInThePassInTheOrderOfTheRanks) {
  const auto errors = RunRanks(3, {}, [](ProcessRanks& ranks) {
    const std::vector<double> each = {1e17, 1, -1e17};  // another order has another sum
    CREMA_CHECK(ranks.collective().SecondsInPass() == 0);
    for (int round = 0; round < 20; ++round) {
      std::vector<double> values = {each[static_cast<size_t>(ranks.rank())], 1.0 * round};
      ranks.collective().SumsInPass()->SumNow(values);
      CREMA_CHECK(values[0] == 1e17 + 1 - 1e17 && values[1] == 3.0 * round);
    }
    CREMA_CHECK(ranks.collective().SecondsInPass() > 0);
  });
  EXPECT_EQ(errors, kNoErrors);
}

TEST(ProcessRanks, DoNotWaitInAPassForARankThatFailed) {
  const auto errors = RunRanks(3, {}, [](ProcessRanks& ranks) {
    std::vector<double> values(4);
    ranks.collective().SumsInPass()->SumNow(values);
    if (ranks.rank() == 2) Fail(ErrorCode::kDiverged, "the loss is NaN");
    ranks.collective().SumsInPass()->SumNow(values);
  });
  EXPECT_EQ(errors, std::vector<std::string>(3, "rank 2 on host2: the loss is NaN"));
  const auto silent = RunRanks(3, {.timeout = 0.3}, [](ProcessRanks& ranks) {
    std::vector<double> values(4);
    if (ranks.rank() != 2) ranks.collective().SumsInPass()->SumNow(values);
  });
  EXPECT_NE(silent[0].find("no answer from rank 2 on host2"), std::string::npos) << silent[0];
}

TEST(ProcessRanks, CopyFromTheFirst) {
  const auto errors = RunRanks(3, {}, [](ProcessRanks& ranks) {
    std::vector<float> values(5, static_cast<float>(ranks.rank() + 1));
    const TensorView blob(values.data(), Shape{5}, DType::kF32);
    ranks.collective().CopyFromFirst(ranks.rank(), ExecContext(1, 1), std::vector{blob});
    CREMA_CHECK(values == std::vector<float>(5, 1));
  });
  EXPECT_EQ(errors, kNoErrors);
}

TEST(ProcessRanks, TellAllWhichOneFailed) {
  const auto errors = RunRanks(3, {}, [](ProcessRanks& ranks) {
    ranks.Exchange(ranks.rank(), {});
    if (ranks.rank() == 1) Fail(ErrorCode::kDataLoss, "a broken record");
    ranks.Exchange(ranks.rank(), {});
  });
  EXPECT_EQ(errors, std::vector<std::string>(3, "rank 1 on host1: a broken record"));
}

TEST(ProcessRanks, TellThePlaceOfAnErrorAndItsProblems) {
  for (const bool all : {false, true}) {
    RunRanks(3, {}, [&](ProcessRanks& ranks) {
      const Where where = {.file = "net.prototxt", .line = 7, .column = 3, .layer = "ip"};
      const std::vector<Problem> problems = {{ErrorCode::kNotFound, where, "no such type"},
                                             {ErrorCode::kDataLoss, {}, "damaged"}};
      if (all || ranks.rank() == 1) {
        ranks.Fail(ranks.rank(), std::make_exception_ptr(Error(problems)));
      } else {
        EXPECT_THROW(ranks.Exchange(ranks.rank(), {}), Error);
      }
      try {
        std::rethrow_exception(ranks.failure().error);
      } catch (const Error& error) {
        const std::string name = all ? "" : "rank 1 on host1: ";
        EXPECT_EQ(error.what(), StrCat(name, Error(problems).what()));
        ASSERT_EQ(error.problems().size(), 2U);
        const Problem& first = error.problems()[0];
        EXPECT_EQ(first.code, ErrorCode::kNotFound);
        EXPECT_EQ(ToString({first.code, first.where, ""}), ToString({first.code, where, ""}));
        EXPECT_EQ(first.message, name + "no such type");
        EXPECT_EQ(error.problems()[1].message, name + "damaged");
      }
    });
  }
}

TEST(ProcessRanks, ReportALackOfThreadsAsOneProcessDoes) {
  const auto errors = RunRanks(3, {}, [](ProcessRanks& ranks) {
    ranks.Exchange(ranks.rank(), {});
    if (ranks.rank() != 2) throw std::system_error(EAGAIN, std::generic_category());
    ranks.Exchange(ranks.rank(), {});
  });
  EXPECT_TRUE(errors[2].starts_with("rank 0 on host0: a thread could not be started")) << errors[2];
}

TEST(ProcessRanks, TellTheSameErrorOfAllOnceAndWithoutARank) {
  const auto errors = RunRanks(
      3, {}, [](ProcessRanks&) { Fail(ErrorCode::kNotFound, "there is no file 'net.prototxt'"); });
  EXPECT_EQ(errors, std::vector<std::string>(3, "there is no file 'net.prototxt'"));
}

TEST(ProcessRanks, DoNotWaitForARankThatIsSilent) {
  const auto in_exchange = RunRanks(3, {.timeout = 0.3}, [](ProcessRanks& ranks) {
    if (ranks.rank() != 2) ranks.Exchange(ranks.rank(), {});
  });
  EXPECT_NE(in_exchange[0].find("no answer from rank 2 on host2"), std::string::npos)
      << in_exchange[0];
  const auto in_sum = RunRanks(3, {.timeout = 0.3}, [](ProcessRanks& ranks) {
    std::vector<float> values(9);
    if (ranks.rank() == 2) return;
    try {
      ranks.collective().Sum(ranks.rank(), ExecContext(1, 1), values);
    } catch (...) {
      CREMA_CHECK(ranks.collective().HasFailed() && !ranks.collective().IsIdle());
      throw;
    }
  });
  for (const size_t rank : {0U, 1U}) {
    EXPECT_NE(in_sum[rank].find("no answer from rank 2 on host2"), std::string::npos)
        << in_sum[rank];
  }
}

TEST(ProcessRanks, WaitForAFirstRankThatWorks) {
  const auto errors = RunRanks(3, {.timeout = 2}, [](ProcessRanks& ranks) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(4500);
    while (ranks.rank() == 0 && std::chrono::steady_clock::now() < end) ranks.KeepAlive();
    ranks.Exchange(ranks.rank(), {});
  });
  EXPECT_EQ(errors, kNoErrors);
}

// Rank 1 fails before its sums; the others have started theirs.
TEST(ProcessRanks, FailWhileSumsOfOthersWait) {
  std::vector<std::vector<float>> values(3, std::vector<float>(9));
  const auto errors = RunRanks(3, {}, [&](ProcessRanks& ranks) {
    if (ranks.rank() == 1) Fail(ErrorCode::kDiverged, "the loss is NaN");
    ranks.collective().StartSum(ranks.rank(), values[static_cast<size_t>(ranks.rank())]);
    try {
      ranks.Exchange(ranks.rank(), {});
    } catch (const Error&) {
      CREMA_CHECK(!ranks.collective().IsIdle() && !ranks.out_of_step());
      throw;
    }
  });
  EXPECT_EQ(errors, std::vector<std::string>(3, "rank 1 on host1: the loss is NaN"));
}

TEST(Transport, ThatIsMissingIsNamedWithTheRemedy) {
  try {
    StartTransport("nosuch", 1, [](const std::string&) {});
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    const std::string text = error.what();
    for (const char* part : {"libcrema_mpi_nosuch.so", "-DCREMA_MPI=ON", "--transport=none"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    EXPECT_EQ(text.find("OpenCV"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace crema::test
