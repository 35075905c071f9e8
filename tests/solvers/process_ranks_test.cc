#include "parallel/process_ranks.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "parallel/mpi.h"
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

TEST(ProcessRanks, SumInThePassInTheOrderOfTheRanks) {
  const auto errors = RunRanks(3, {}, [](ProcessRanks& ranks) {
    const std::vector<double> each = {1e17, 1, -1e17};  // another order has another sum
    for (int round = 0; round < 20; ++round) {
      std::vector<double> values = {each[static_cast<size_t>(ranks.rank())], 1.0 * round};
      ranks.collective().SumsInPass()->SumNow(values);
      CREMA_CHECK(values[0] == 1e17 + 1 - 1e17 && values[1] == 3.0 * round);
    }
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
  const auto errors = RunRanks(3, {.timeout = 1}, [](ProcessRanks& ranks) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
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

TEST(Mpi, ThatIsMissingIsNamedWithTheRemedy) {
  try {
    StartMpi("nosuch");
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    const std::string text = error.what();
    for (const char* part : {"libcrema_mpi_nosuch.so", "-DCREMA_MPI=ON", "--mpi=none"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    EXPECT_EQ(text.find("OpenCV"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace crema::test
