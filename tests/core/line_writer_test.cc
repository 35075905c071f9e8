#include "core/line_writer.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "core/strings.h"
#include "support/pipe.h"

namespace crema {
namespace {

using namespace std::chrono_literals;
using test::Pipe;
using Clock = std::chrono::steady_clock;

std::string Note(int64_t lines) { return StrCat("dropped ", lines, "\n"); }

TEST(LineWriter, WritesAllLinesInOrder) {
  const Pipe pipe;
  std::string expected;
  std::string read;
  std::thread reader([&] { read = pipe.Read(60s, "line 19999\n"); });
  {
    LineWriter writer(pipe.writer(), Note);
    for (int i = 0; i < 20000; ++i) {
      const std::string line = StrCat("line ", i, "\n");
      expected += line;
      i % 3 == 0 ? writer.WriteThrough(line) : writer.Write(line);
    }
    EXPECT_TRUE(writer.Flush(60s));
    EXPECT_EQ(writer.error(), 0);
  }
  reader.join();
  EXPECT_TRUE(read == expected);
}

TEST(LineWriter, LinesWrittenThroughAreThereWhenItReturns) {
  const Pipe pipe;
  LineWriter writer(pipe.writer());
  for (int i = 0; i < 100; ++i) {
    const std::string line = StrCat("line ", i, "\n");
    writer.WriteThrough(line);
    EXPECT_EQ(pipe.Read(10ms, line), line);
  }
}

TEST(LineWriter, APipeThatNobodyReadsHoldsNobodyUpAndDropsAreCounted) {
  const Pipe pipe;
  LineWriter writer(pipe.writer(), Note);
  const std::string rest(120, 'x');
  constexpr int kLines = 30000;  // 3.8 MB
  const auto start = Clock::now();
  for (int i = 0; i < kLines; ++i) {
    const std::string line = StrCat(i, " ", rest, "\n");
    i % 2 == 0 ? writer.WriteThrough(line) : writer.Write(line);
  }
  EXPECT_FALSE(writer.Flush(1ms));
  EXPECT_LT(Clock::now() - start, 60s);

  std::string read = pipe.Read(60s, "\n");
  while (read.find("dropped ") == std::string::npos) {
    const std::string more = pipe.Read(60s, "\n");
    ASSERT_FALSE(more.empty()) << "the count was not written";
    read += more;
  }
  ASSERT_TRUE(writer.Flush(60s));
  read += pipe.Read(1ms);
  const std::vector<std::string> lines = Split(read, '\n');
  int dropped = 0;
  int whole = 0;
  for (const std::string& line : lines) {
    if (line.empty()) continue;
    if (line.starts_with("dropped ")) {
      dropped += std::stoi(line.substr(8));
    } else {
      EXPECT_EQ(line, StrCat(whole, " ", rest));
      ++whole;
    }
  }
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(whole + dropped, kLines);
  // From here on it writes again.
  writer.WriteThrough("again\n");
  EXPECT_EQ(pipe.Read(60s, "again\n"), "again\n");
}

TEST(LineWriter, ItsEndIsBoundedWhereNobodyReads) {
  const Pipe pipe;
  const auto start = Clock::now();
  {
    LineWriter writer(pipe.writer());
    writer.Write(std::string(200000, 'x') + "\n");
  }
  EXPECT_GE(Clock::now() - start, LineWriter::kPatience);
  EXPECT_LT(Clock::now() - start, LineWriter::kPatience + 10s);
}

TEST(LineWriter, AReaderThatHasGoneIsAnErrorWithoutASignal) {
  Pipe pipe;
  pipe.CloseReader();
  std::signal(SIGPIPE, SIG_DFL);  // would end this program
  LineWriter writer(pipe.writer(), Note);
  for (int i = 0; i < 100; ++i) writer.WriteThrough("line\n");
  EXPECT_TRUE(writer.Flush(60s));
  EXPECT_EQ(writer.error(), EPIPE);
}

}  // namespace
}  // namespace crema
