#include "report/metrics_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <regex>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "log_lines.h"
#include "report/pace.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::LogLines;
using test::TempDir;

IterationReport Iteration(int64_t iteration) {
  return {.iteration = iteration,
          .max_iterations = 100,
          .loss = 2.5,
          .smoothed_loss = 2.25,
          .rate = 0.01,
          .samples = 8,
          .seconds = 0.5,
          .wait_seconds = 0.125,
          .epoch = 0.75,
          .displayed = true,
          .outputs = {{"loss", 2.5, 1}}};
}

TestReport Tested(int64_t iteration) {
  return {.iteration = iteration,
          .net = 1,
          .outputs = {{"accuracy", 0.5, 0}, {"per,class", 0.25, 0}, {"per,class", 0.125, 0}},
          .has_loss = true,
          .loss = 1.5,
          .epoch = 0.5};
}

// Times of day differ from run to run.
std::string WithoutTime(const std::string& text) {
  return std::regex_replace(text, std::regex("[0-9]{9,}\\.[0-9]{3}"), "T");
}

constexpr const char* kHeader =
    "kind,iteration,epoch,time,loss,smoothed_loss,lr,samples_per_second,wait_share,net,blob,"
    "element,value\n";

TEST(MetricsWriter, WritesTheDocumentedSchema) {
  const TempDir temp;
  LogLines log;
  RunFolder folder(temp.File("run"), RunStart::kFresh, {}, log);
  MetricsWriter metrics(folder, 0, 0);
  metrics.OnIteration(Iteration(20));
  metrics.OnTest(Tested(21));
  EXPECT_EQ(WithoutTime(temp.Read("run/metrics.csv")),
            std::string(kHeader) +
                "train,20,0.75,T,2.5,2.25,0.01,16,0.25,,,,\n"
                "output,20,0.75,T,,,,,,,loss,0,2.5\n"
                "test,21,0.5,T,,,,,,1,accuracy,0,0.5\n"
                "test,21,0.5,T,,,,,,1,\"per,class\",0,0.25\n"
                "test,21,0.5,T,,,,,,1,\"per,class\",1,0.125\n"
                "test,21,0.5,T,,,,,,1,,0,1.5\n");
  EXPECT_EQ(
      WithoutTime(temp.Read("run/metrics.jsonl")),
      R"({"kind":"train","iteration":20,"epoch":0.75,"time":T,"loss":2.5,"smoothed_loss":2.25,"lr":0.01,"samples_per_second":16,"wait_share":0.25}
{"kind":"output","iteration":20,"epoch":0.75,"time":T,"blob":"loss","element":0,"value":2.5}
{"kind":"test","iteration":21,"epoch":0.5,"time":T,"net":1,"blob":"accuracy","element":0,"value":0.5}
{"kind":"test","iteration":21,"epoch":0.5,"time":T,"net":1,"blob":"per,class","element":0,"value":0.25}
{"kind":"test","iteration":21,"epoch":0.5,"time":T,"net":1,"blob":"per,class","element":1,"value":0.125}
{"kind":"test","iteration":21,"epoch":0.5,"time":T,"net":1,"blob":"","element":0,"value":1.5}
)");
  EXPECT_TRUE(log.warnings.empty());
}

TEST(MetricsWriter, PaceIsThatSinceTheLastRow) {
  const TempDir temp;
  LogLines log;
  RunFolder folder(temp.File("run"), RunStart::kFresh, {}, log);
  MetricsWriter metrics(folder, 0, 10);
  for (int64_t i = 0; i <= 10; ++i) {
    IterationReport report = Iteration(i);
    report.outputs.clear();
    report.seconds = i == 0 ? 100 : 0.25;
    report.wait_seconds = i == 10 ? 0.5 : 0;
    metrics.OnIteration(report);
  }
  // Iterations 1 to 10: 80 samples in 2.5 s, of which 0.5 s were waiting.
  EXPECT_NE(temp.Read("run/metrics.csv").find(",2.5,2.25,0.01,32,0.2,"), std::string::npos)
      << temp.Read("run/metrics.csv");
}

TEST(MetricsWriter, UnknownNumbersAreLeftEmpty) {
  IterationReport report = Iteration(99);
  report.displayed = false;  // the last iteration has a row nevertheless
  report.seconds = 0;
  const TempDir temp;
  LogLines log;
  RunFolder folder(temp.File("run"), RunStart::kFresh, {}, log);
  MetricsWriter(folder, 0, 0).OnIteration(report);
  EXPECT_NE(temp.Read("run/metrics.csv").find("2.25,0.01,,,,,,\n"), std::string::npos);
  EXPECT_NE(temp.Read("run/metrics.jsonl").find("\"samples_per_second\":null"), std::string::npos);
}

TEST(MetricsWriter, AResumedRunCutsWhatItDoesAgain) {
  const TempDir temp;
  LogLines log;
  const auto run = [&](RunStart start, int64_t from, int64_t to) {
    RunFolder folder(temp.File("run"), start, {{"run.json", "{}"}}, log);
    MetricsWriter metrics(folder, from, 0);
    for (int64_t i = from; i < to; ++i) {
      if (i % 2 == 0) metrics.OnTest(Tested(i));
      metrics.OnIteration(Iteration(i));
    }
  };
  run(RunStart::kFresh, 0, 8);
  const std::string whole_csv = WithoutTime(temp.Read("run/metrics.csv"));
  const std::string whole_json = WithoutTime(temp.Read("run/metrics.jsonl"));
  // Killed in the middle of a row.
  temp.Write("run/metrics.csv", temp.Read("run/metrics.csv") + "train,8,0.7");
  temp.Write("run/metrics.jsonl", temp.Read("run/metrics.jsonl") + "{\"kind\":\"tr");
  run(RunStart::kContinued, 4, 8);
  EXPECT_EQ(WithoutTime(temp.Read("run/metrics.csv")), whole_csv);
  EXPECT_EQ(WithoutTime(temp.Read("run/metrics.jsonl")), whole_json);
  EXPECT_TRUE(log.warnings.empty());
}

TEST(MetricsWriter, AFolderDeletedMeanwhileIsMadeAnewWithOneWarning) {
  const TempDir temp;
  LogLines log;
  RunFolder folder(temp.File("run"), RunStart::kFresh, {{"run.json", "{}"}}, log);
  MetricsWriter metrics(folder, 0, 0);
  metrics.OnIteration(Iteration(1));
  fs::remove_all(temp.File("run"));
  metrics.OnIteration(Iteration(2));
  fs::remove(temp.File("run/metrics.jsonl"));
  metrics.OnIteration(Iteration(3));
  ASSERT_EQ(log.warnings.size(), 1U);
  EXPECT_NE(log.warnings[0].find("was deleted while the run writes to it"), std::string::npos);
  EXPECT_EQ(temp.Read("run/run.json"), "{}");
  const std::string csv = temp.Read("run/metrics.csv");
  EXPECT_TRUE(csv.starts_with(kHeader)) << csv;
  EXPECT_EQ(csv.find("train,1,"), std::string::npos);
  EXPECT_NE(csv.find("train,2,"), std::string::npos);
  EXPECT_NE(csv.find("train,3,"), std::string::npos);
  EXPECT_TRUE(temp.Read("run/metrics.jsonl").starts_with("{\"kind\":\"train\",\"iteration\":3,"));
}

TEST(MetricsWriter, AFolderThatCannotBeMadeAnewEndsNothing) {
  const TempDir temp;
  LogLines log;
  RunFolder folder(temp.File("run"), RunStart::kFresh, {{"run.json", "{}"}}, log);
  MetricsWriter metrics(folder, 0, 0);
  fs::remove_all(temp.File("run"));
  temp.Write("run", "a file in the way");
  metrics.OnIteration(Iteration(1));
  metrics.OnIteration(Iteration(2));
  EXPECT_EQ(log.warnings.size(), 1U);
  EXPECT_EQ(temp.Read("run"), "a file in the way");
}

// A file size limit simulates a full disk: writes fail at the same place.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(size_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

TEST(GrowingFile, LeavesOutWhatDoesNotFitAndHasNoHalfPieces) {
  const TempDir temp;
  LogLines log;
  RunFolder folder(temp.File("run"), RunStart::kFresh, {}, log);
  GrowingFile file(folder, "rows", [] { return "header\n"; });
  file.Append("first\n");
  {
    const FileSizeLimit limit(18);  // five bytes more
    file.Append("second row\n");
    file.Append("third row\n");
  }
  file.Append("fourth\n");
  EXPECT_EQ(temp.Read("run/rows"), "header\nfirst\nfourth\n");
  ASSERT_EQ(log.warnings.size(), 1U);
  EXPECT_NE(log.warnings[0].find("run/rows: cannot be written: "), std::string::npos)
      << log.warnings[0];
}

TEST(RunFolder, TwoRunsDoNotWriteIntoOneFolder) {
  const TempDir temp;
  LogLines log;
  const std::map<std::string, std::string> texts = {{"run.json", "{}"}};
  {
    RunFolder first(temp.File("run"), RunStart::kFresh, texts, log);
    first.Recreate();  // which is the same run
    for (const RunStart start : {RunStart::kFresh, RunStart::kContinued}) {
      try {
        const RunFolder second(temp.File("run"), start, texts, log);
        FAIL() << "two at once";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
        EXPECT_NE(std::string(error.what()).find("another process is training in this folder"),
                  std::string::npos)
            << error.what();
      }
    }
    fs::remove_all(temp.File("run"));
    const RunFolder other(temp.File("run"), RunStart::kFresh, texts, log);
    EXPECT_THROW(first.Recreate(), Error) << "it is another's by now";
  }
  const RunFolder next(temp.File("run"), RunStart::kContinued, texts, log);
  EXPECT_TRUE(log.warnings.empty());
}

TEST(RunFolder, FreshRunsAreNumberedAndContinuedOnesGoOnInTheLast) {
  const TempDir temp;
  LogLines log;
  const std::string prefix = temp.File("snap");
  EXPECT_EQ(RunFolderOfPrefix(prefix, RunStart::kFresh), prefix + "_run");
  EXPECT_EQ(RunFolderOfPrefix(prefix, RunStart::kContinued), prefix + "_run");
  for (const char* expected : {"_run", "_run_2", "_run_3"}) {
    const std::string path = RunFolderOfPrefix(prefix, RunStart::kFresh);
    EXPECT_EQ(path, prefix + expected);
    const RunFolder folder(path, RunStart::kFresh, {{"run.json", "{}"}}, log);
    EXPECT_EQ(RunFolderOfPrefix(prefix, RunStart::kContinued), path);
  }
}

TEST(RunFolder, AFreshRunIsNotWrittenOverAnother) {
  const TempDir temp;
  LogLines log;
  const auto open = [&](RunStart start, const std::string& path) -> std::string {
    try {
      const RunFolder folder(path, start, {{"run.json", "{}"}}, log);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(open(RunStart::kFresh, temp.File("run")), "");
  EXPECT_NE(open(RunStart::kFresh, temp.File("run")).find("holds a run already"),
            std::string::npos);
  EXPECT_EQ(open(RunStart::kContinued, temp.File("run")), "");
  temp.Write("file", "x");
  EXPECT_NE(open(RunStart::kFresh, temp.File("file/run")).find("file/run"), std::string::npos);
}

TEST(WaitHint, IsGivenOnceWhenAFifthOfTheTimeIsWaiting) {
  LogLines log;
  WaitHint hint(log);
  IterationReport report = Iteration(0);
  report.wait_seconds = 0.5;
  hint.OnIteration(report);  // the first batch does not count
  report.wait_seconds = 0.0999;
  for (int i = 0; i < 300; ++i) hint.OnIteration(report);
  EXPECT_TRUE(log.warnings.empty()) << "under 20 %";
  report.wait_seconds = 0.2;
  for (int i = 0; i < 300; ++i) hint.OnIteration(report);
  ASSERT_EQ(log.warnings.size(), 1U);
  EXPECT_NE(log.warnings[0].find("of the last 100 iterations"), std::string::npos);
  EXPECT_NE(log.warnings[0].find("threads"), std::string::npos);
  EXPECT_NE(log.warnings[0].find("prefetch"), std::string::npos);
}

TEST(WaitHint, NeedsAHundredIterations) {
  LogLines log;
  WaitHint hint(log);
  IterationReport report = Iteration(0);
  report.wait_seconds = report.seconds;
  for (int i = 0; i < 100; ++i) hint.OnIteration(report);
  EXPECT_TRUE(log.warnings.empty());
  hint.OnIteration(report);
  EXPECT_EQ(log.warnings.size(), 1U);
}

// The passes of three ranks in seconds, and what the first of them waits for sums.
void Feed(int iterations, const std::vector<double>& passes, double exposed, RankHint* hint) {
  IterationReport report = Iteration(0);
  report.seconds = 1;
  report.ranks = {.passes = passes, .sums = 0.9, .exposed = exposed};
  for (int i = 0; i < iterations; ++i) hint->OnIteration(report);
}

TEST(RankHint, NamesASlowRankOnce) {
  LogLines log;
  RankHint hint(log);
  Feed(300, {0.4, 0.5, 0.6}, 0.1, &hint);
  EXPECT_TRUE(log.warnings.empty()) << "1.2 times the median";
  Feed(300, {0.5, 0.5, 0.7}, 0.1, &hint);
  ASSERT_EQ(log.warnings.size(), 1U);
  EXPECT_NE(log.warnings[0].find("the passes of rank 2 take 1.40 times as long"), std::string::npos)
      << log.warnings[0];
}

TEST(RankHint, TellsOnceOfSumsThatThePassesDoNotHide) {
  LogLines log;
  RankHint hint(log);
  Feed(99, {0.5, 0.5}, 0.3, &hint);
  EXPECT_TRUE(log.warnings.empty());
  Feed(201, {0.5, 0.5}, 0.3, &hint);
  ASSERT_EQ(log.warnings.size(), 1U);
  EXPECT_NE(log.warnings[0].find("30 % of the last 100 iterations"), std::string::npos)
      << log.warnings[0];
}

TEST(RankHint, SaysNothingOfOneProcess) {
  LogLines log;
  RankHint hint(log);
  for (int i = 0; i < 300; ++i) hint.OnIteration(Iteration(i));
  EXPECT_TRUE(log.warnings.empty());
}

}  // namespace
}  // namespace crema
