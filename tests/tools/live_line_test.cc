#include "common/live_line.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cmath>

#include "support/pipe.h"
#include "support/terminal.h"

namespace crema::tools {
namespace {

using std::chrono::milliseconds;
using test::Terminal;

IterationReport Iteration(int64_t iteration) {
  return {.iteration = iteration,
          .max_iterations = 450000,
          .loss = 0.43214321,
          .smoothed_loss = 0.43214321,
          .rate = 0.00123456,
          .samples = 256,
          .seconds = 0.5,
          .wait_seconds = 0.02,
          .epoch = 12.345,
          .outputs = {}};
}

TEST(FitParts, TheMostImportantOnesStay) {
  const std::vector<std::string> parts = {"iter 7/100", "loss 0.5", "ETA 1m02s"};
  EXPECT_EQ(FitParts(parts, 80), "iter 7/100  loss 0.5  ETA 1m02s");
  EXPECT_EQ(FitParts(parts, 31), "iter 7/100  loss 0.5  ETA 1m02s");
  EXPECT_EQ(FitParts(parts, 30), "iter 7/100  loss 0.5");
  EXPECT_EQ(FitParts(parts, 10), "iter 7/100");
  EXPECT_EQ(FitParts(parts, 6), "iter 7");
  EXPECT_EQ(FitParts({}, 6), "");
}

TEST(LiveLine, NeverWrapsAndStaysOneLine) {
  for (const int columns : {200, 80, 40, 20, 10, 3, 1}) {
    Terminal terminal(columns);
    {
      LiveLine line(terminal.program_side(), milliseconds(0));
      for (int64_t i = 99990; i < 100010; ++i) line.OnIteration(Iteration(i));
      terminal.Drain();
      EXPECT_EQ(terminal.screen().lines().size(), 1U) << columns;
      EXPECT_LT(terminal.screen().column() + 2, std::max<size_t>(4, static_cast<size_t>(columns)))
          << "room for ^C";
    }
    terminal.Drain();
    EXPECT_TRUE(terminal.screen().wrapped().empty()) << columns;
    EXPECT_EQ(terminal.screen().unknown(), "") << columns;
    EXPECT_EQ(terminal.screen().lines().back(), "") << "a fresh line at the end";
    EXPECT_EQ(terminal.screen().column(), 0U);
  }
}

TEST(LiveLine, ShowsDataAndComputeShareAt100Columns) {
  Terminal terminal(100);
  LiveLine line(terminal.program_side(), milliseconds(0));
  for (int64_t i = 0; i < 5; ++i) line.OnIteration(Iteration(i));
  terminal.Drain();
  const std::string shown = terminal.screen().lines().back();
  EXPECT_TRUE(shown.starts_with("iter 5/450000  [>         ]  loss 0.4321  ETA ")) << shown;
  EXPECT_NE(shown.find("  data 4 % compute 96 %"), std::string::npos) << shown;
}

// Losses of 0 and 2 by turns: the line shows their mean, and a loss that is not finite at once.
TEST(LiveLine, ShowsALossThatDoesNotJump) {
  Terminal terminal(100);
  LiveLine line(terminal.program_side(), milliseconds(0));
  const auto shown_loss = [&](int64_t iteration, double loss) {
    IterationReport report = Iteration(iteration);
    report.smoothed_loss = loss;
    line.OnIteration(report);
    terminal.Drain();
    const std::string shown = terminal.screen().lines().back();
    return shown.substr(shown.find("loss ") + 5);
  };
  EXPECT_TRUE(shown_loss(0, 2).starts_with("2 ")) << "the first one as it is";
  for (int64_t i = 1; i < 100; ++i) shown_loss(i, i % 2 == 0 ? 2 : 0);
  EXPECT_TRUE(shown_loss(100, 2).starts_with("1.053 "));
  EXPECT_TRUE(shown_loss(101, std::nan("")).starts_with("nan "));
  EXPECT_TRUE(shown_loss(102, 0.5).starts_with("0.5 ")) << "begins again";
}

TEST(LiveLine, HasABarAndTheLastAndBestResultOfTheTests) {
  Terminal terminal(120);
  LiveLine line(terminal.program_side(), milliseconds(0));
  line.OnTest({.iteration = 0, .outputs = {{"accuracy", 0.75, 0}}});
  line.OnTest({.iteration = 100, .outputs = {{"accuracy", 0.9, 0}}});
  line.OnTest({.iteration = 200, .outputs = {{"accuracy", 0.5, 0}}});
  line.OnIteration(Iteration(225'000));
  terminal.Drain();
  EXPECT_TRUE(terminal.screen().lines().back().starts_with(
      "iter 225001/450000  [=====>    ]  loss 0.4321  accuracy 0.5 best 0.9  ETA "))
      << terminal.screen().lines().back();
}

TEST(LiveLine, TheBestLossIsTheSmallest) {
  Terminal terminal(60);
  LiveLine line(terminal.program_side(), milliseconds(0));
  line.OnTest({.iteration = 0, .outputs = {{"loss", 0.25, 1}}});
  line.OnTest({.iteration = 100, .outputs = {{"loss", 0.5, 1}}});
  line.OnIteration(Iteration(100));
  terminal.Drain();
  EXPECT_TRUE(terminal.screen().lines().back().starts_with(
      "iter 101/450000  loss 0.4321  loss 0.5 best 0.25"))
      << terminal.screen().lines().back();
}

TEST(LiveLine, WithoutTimesThereIsNoShare) {
  Terminal terminal(200);
  LiveLine line(terminal.program_side(), milliseconds(0));
  IterationReport report = Iteration(1);
  report.seconds = 0;
  report.wait_seconds = 0;
  line.OnIteration(report);
  terminal.Drain();
  EXPECT_EQ(terminal.screen().text().find("data"), std::string::npos) << terminal.screen().text();
  EXPECT_EQ(terminal.screen().text().find("nan"), std::string::npos) << terminal.screen().text();
}

TEST(LiveLine, FollowsTheSizeOfTheTerminal) {
  Terminal terminal(80);
  LiveLine line(terminal.program_side(), milliseconds(0));
  line.OnIteration(Iteration(1));
  terminal.Drain();
  const size_t wide = terminal.screen().lines().back().size();
  EXPECT_GT(wide, 40U);
  terminal.Resize(40);
  line.OnIteration(Iteration(2));
  terminal.Drain();
  const size_t narrow = terminal.screen().lines().back().size();
  EXPECT_LE(narrow, 37U);
  EXPECT_GT(narrow, 20U);
  terminal.Resize(20);
  line.OnIteration(Iteration(3));
  line.Print("a line");  // with the live one drawn again below it
  terminal.Resize(80);
  line.OnIteration(Iteration(4));
  terminal.Drain();
  EXPECT_EQ(terminal.screen().lines().back().size(), wide);
  EXPECT_TRUE(terminal.screen().wrapped().empty());
}

// Datagrams preserve the boundaries of writes.
TEST(LiveLine, ARedrawIsOneWriteThatGoesOverWhatIsThere) {
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
  std::vector<std::string> writes;
  {
    LiveLine line(ends[0], milliseconds(0));
    for (int64_t i = 1; i <= 10; ++i) line.OnIteration(Iteration(i));
    line.Print("above");
    for (int i = 0; i < 11; ++i) {
      std::array<char, 1024> buffer{};
      const ssize_t count = read(ends[1], buffer.data(), buffer.size());
      ASSERT_GT(count, 0);
      writes.emplace_back(buffer.data(), static_cast<size_t>(count));
    }
  }
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_TRUE(writes[i].starts_with("\riter ")) << "nothing is cleared first: " << writes[i];
    EXPECT_EQ(writes[i].find('\033'), writes[i].size() - 3) << "the rest is cleared at the end";
    EXPECT_TRUE(writes[i].ends_with("\033[K"));
  }
  EXPECT_TRUE(writes[10].starts_with("\rabove\033[K\niter 11/")) << writes[10];
  close(ends[0]);
  close(ends[1]);
}

TEST(LiveLine, DrawsOnceInAnInterval) {
  Terminal terminal(80);
  LiveLine line(terminal.program_side(), std::chrono::hours(1));
  line.OnIteration(Iteration(1));
  terminal.Drain();
  const size_t first = terminal.bytes().size();
  for (int64_t i = 2; i < 100; ++i) line.OnIteration(Iteration(i));
  terminal.Drain();
  EXPECT_EQ(terminal.bytes().size(), first + 1) << "only the mark of Drain";
  IterationReport last = Iteration(449999);
  line.OnIteration(last);
  terminal.Drain();
  EXPECT_TRUE(terminal.screen().lines().back().starts_with("iter 450000/450000"));
}

// As if stopped by Ctrl-S.
TEST(LiveLine, ATerminalThatTakesNothingHoldsNothingUp) {
  const test::Pipe terminal;
  const auto start = std::chrono::steady_clock::now();
  {
    LiveLine line(terminal.writer(), std::chrono::milliseconds(0));
    for (int i = 0; i < 2000; ++i) line.Print(std::string(100, 'x'));
    line.OnIteration(Iteration(0));
  }
  EXPECT_TRUE(terminal.IsFullWithin(std::chrono::milliseconds(0))) << "or this test shows nothing";
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(LiveLine, TestsAndSnapshotsAreLinesOfTheirOwn) {
  Terminal terminal(80);
  LiveLine line(terminal.program_side(), milliseconds(0));
  line.OnStart("toy", 0);
  line.OnIteration(Iteration(500));
  line.OnTestStart(500, 0);
  line.OnTest({.iteration = 500, .outputs = {{"accuracy", 0.75, 0}}});
  line.OnSnapshot("a.caffemodel", "a.solverstate");
  line.OnBest("best.caffemodel", "test#0:accuracy", 0.75);
  line.OnEnd(false);
  terminal.Drain();
  EXPECT_EQ(terminal.screen().text(),
            "training toy\n"
            "test #0 at iteration 500: accuracy = 0.75\n"
            "snapshot a.caffemodel\n"
            "best so far: test#0:accuracy = 0.75, in best.caffemodel\n"
            "done\n"
            "\n");
}

}  // namespace
}  // namespace crema::tools
