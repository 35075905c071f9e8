// Output of a training: on a terminal, in a pipe, in its folder.
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <thread>

#include "core/strings.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "support/terminal.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Process;
using test::ProcessResult;
using test::RunProcess;
using test::TempDir;
using test::Terminal;

constexpr const char* kSeeingNet = R"(name: "toy"
layer { name: "data" type: "DummyData" top: "x" top: "t"
  dummy_data_param { shape { dim: 6 dim: 4 } shape { dim: 6 dim: 3 }
    data_filler { type: "gaussian" } data_filler { type: "constant" value: 0.5 } } }
layer { name: "out" type: "InnerProduct" bottom: "x" top: "y"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "loss" }
)";

std::string SolverText(const std::string& max_iter) {
  return StrCat("net: \"net.prototxt\" base_lr: 0.01 lr_policy: \"fixed\" random_seed: 1\n",
                "display: 10 snapshot_prefix: \"snap\" max_iter: ", max_iter, "\n");
}

constexpr const char* kEndless = "100000000";

class Seeing : public ::testing::Test {
 protected:
  void SetUp() override {
    temp_.Write("net.prototxt", kSeeingNet);
    temp_.Write("solver.prototxt",
                SolverText("40") + "test_iter: 1 test_interval: 20 snapshot: 20\n");
    temp_.Write("endless.prototxt", SolverText(kEndless));
  }

  static std::vector<std::string> Command(const std::string& solver,
                                          const std::vector<std::string>& flags = {}) {
    std::vector<std::string> command = {test::Bin("train"), "--solver=" + solver, "--threads=1"};
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }
  ProcessResult Train(const std::vector<std::string>& flags = {}) const {
    return RunProcess(Command("solver.prototxt", flags), temp_.path());
  }
  size_t CountFiles(const std::string& ending) const {
    const fs::directory_iterator begin(temp_.path());
    return static_cast<size_t>(std::count_if(
        begin, fs::directory_iterator(),
        [&](const fs::directory_entry& entry) { return entry.path().string().ends_with(ending); }));
  }

  TempDir temp_;
};

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

auto Has(const std::string& part) {
  return [part](const std::string& all) { return all.find(part) != std::string::npos; };
}

bool WaitUntil(const std::function<bool()>& done) {
  for (int i = 0; i < 3000 && !done(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return done();
}

// Only lines of the log may be longer than the terminal is wide.
void ExpectLiveLineNeverWrapped(const Terminal& terminal) {
  for (const std::string& line : terminal.screen().wrapped()) {
    EXPECT_FALSE(line.starts_with("iter ")) << line;
  }
  EXPECT_EQ(terminal.screen().unknown(), "") << "the cursor is not hidden, nothing is scrolled";
}

TEST_F(Seeing, OnTerminalsOfAnyWidthTheLiveLineNeverWraps) {
  for (const int columns : {80, 40, 20}) {
    Terminal terminal(columns);
    terminal.Start(Command("solver.prototxt"), temp_.path());
    EXPECT_EQ(terminal.Wait(), 0) << terminal.bytes();
    ExpectLiveLineNeverWrapped(terminal);
    const std::string shown = terminal.screen().text();
    EXPECT_NE(shown.find("training toy\n"), std::string::npos) << shown;
    EXPECT_NE(shown.find("done\ntrained to iteration 40 in "), std::string::npos) << shown;
    EXPECT_NE(shown.find("\nlast test: loss = "), std::string::npos) << shown;
    EXPECT_NE(terminal.bytes().find("\riter 40/40"), std::string::npos) << terminal.bytes();
    EXPECT_EQ(terminal.bytes().find("Train net output"), std::string::npos) << "Caffe's lines";
  }
}

TEST_F(Seeing, ATerminalGetsThreeLinesOfTheNetWithoutGlogsPrefix) {
  Terminal terminal(80);
  terminal.Start(Command("solver.prototxt"), temp_.path());
  EXPECT_EQ(terminal.Wait(), 0) << terminal.bytes();
  const std::string shown = terminal.screen().text();
  EXPECT_TRUE(shown.starts_with("net \"toy\": ")) << shown;
  EXPECT_NE(shown.find("\nparameters: "), std::string::npos) << shown;
  EXPECT_NE(shown.find("\nmemory: "), std::string::npos) << shown;
  for (const char* detail : {"effective solver", "InnerProduct", "crema:0] "}) {
    EXPECT_EQ(shown.find(detail), std::string::npos) << detail << "\n" << shown;
  }
  Terminal verbose(80);
  verbose.Start(Command("solver.prototxt", {"-v"}), temp_.path());
  EXPECT_EQ(verbose.Wait(), 0) << verbose.bytes();
  EXPECT_NE(verbose.screen().text().find("InnerProduct"), std::string::npos);
}

TEST_F(Seeing, ColoursMarkErrorsOnATerminalUnlessTheyAreTurnedOff) {
  const std::string mark = "\033[31merror: \033[0m";
  const auto shown = [&](const std::vector<std::string>& environment) {
    std::vector<std::string> command = {"/usr/bin/env", "-u", "NO_COLOR", "TERM=xterm"};
    command.insert(command.end(), environment.begin(), environment.end());
    command.insert(command.end(), {test::Bin("train"), "nothere.prototxt"});
    Terminal terminal(80);
    terminal.Start(command, temp_.path());
    EXPECT_EQ(terminal.Wait(), 2) << terminal.bytes();
    EXPECT_NE(terminal.screen().text().find("error: "), std::string::npos) << terminal.bytes();
    return terminal.bytes();
  };
  EXPECT_TRUE(shown({}).starts_with(mark)) << shown({});
  for (const char* off : {"NO_COLOR=1", "TERM=dumb"}) {
    EXPECT_EQ(shown({off}).find('\033'), std::string::npos) << off;
  }
}

TEST_F(Seeing, CtrlCInATerminalEndsOnAFreshLineWithOneSnapshot) {
  for (const int columns : {80, 20}) {
    const TempDir folder;
    folder.Write("net.prototxt", kSeeingNet);
    folder.Write("endless.prototxt", SolverText(kEndless));
    Terminal terminal(columns);
    terminal.Start(Command("endless.prototxt"), folder.path());
    terminal.ReadUntil(Has("\riter "));
    terminal.Type("\x03");
    EXPECT_EQ(terminal.Wait(), 0) << terminal.bytes();
    ExpectLiveLineNeverWrapped(terminal);
    EXPECT_EQ(CountOf(terminal.bytes(), "snapshot snap_iter_"), 1U) << terminal.screen().text();
    EXPECT_NE(terminal.screen().text().find("\nstopped\ntrained to iteration "), std::string::npos)
        << terminal.screen().text();
    EXPECT_EQ(terminal.screen().lines().back(), "");
    EXPECT_EQ(terminal.screen().column(), 0U);
  }
}

TEST_F(Seeing, ResizingTheTerminalIsFollowed) {
  Terminal terminal(80);
  terminal.Start(Command("endless.prototxt"), temp_.path());
  terminal.ReadUntil(Has("\riter "));
  terminal.Resize(30);
  const size_t narrow_from = terminal.bytes().size();
  // A redraw or two may have been in progress at the old width.
  terminal.ReadUntil(
      [&](const std::string& all) { return CountOf(all.substr(narrow_from), "\riter ") >= 5; });
  const std::string last = terminal.bytes().substr(terminal.bytes().rfind("\riter "));
  EXPECT_LE(last.find('\033'), 28U) << last;
  terminal.Type("\x03");
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST_F(Seeing, WarningsStandAboveTheLiveLine) {
  Terminal terminal(80);
  terminal.Start(Command("endless.prototxt"), temp_.path());
  terminal.ReadUntil(Has("\riter "));
  ASSERT_TRUE(WaitUntil([&] { return fs::exists(temp_.File("snap_run/metrics.csv")); }));
  std::error_code busy;  // it is filled again meanwhile
  fs::remove_all(temp_.File("snap_run"), busy);
  terminal.ReadUntil(Has("this is reported once"));
  terminal.Type("\x03");
  EXPECT_EQ(terminal.Wait(), 0);
  EXPECT_NE(terminal.screen().text().find("\nwarning: "), std::string::npos)
      << terminal.screen().text();
}

TEST_F(Seeing, EvaluateShowsALineAnOutputOnATerminalAndCaffesLinesElsewhere) {
  ASSERT_EQ(Train().exit_code, 0);
  const std::vector<std::string> command = {test::Bin("evaluate"), "net.prototxt",
                                            "snap_iter_40.caffemodel", "--iterations=2"};
  Terminal terminal(80);
  terminal.Start(command, temp_.path());
  EXPECT_EQ(terminal.Wait(), 0) << terminal.bytes();
  const std::string shown = terminal.screen().text();
  EXPECT_NE(shown.find("\nloss = "), std::string::npos) << shown;
  EXPECT_EQ(shown.find("Loss: "), std::string::npos) << shown;
  EXPECT_EQ(shown.find("(* 1"), std::string::npos) << shown;
  const ProcessResult elsewhere = RunProcess(command, temp_.path());
  EXPECT_NE(elsewhere.out.find("\nLoss: "), std::string::npos) << elsewhere.out;
  EXPECT_NE(elsewhere.out.find(" (* 1 = "), std::string::npos) << elsewhere.out;
}

TEST_F(Seeing, QuietOnATerminalShowsNothing) {
  Terminal terminal(80);
  terminal.Start(Command("solver.prototxt", {"-q"}), temp_.path());
  EXPECT_EQ(terminal.Wait(), 0) << terminal.bytes();
  const std::string shown = terminal.screen().text();
  EXPECT_TRUE(shown.starts_with("trained to iteration 40 in ")) << shown;
  EXPECT_EQ(std::ranges::count(shown, '\n'), 2) << shown;
}

TEST_F(Seeing, PipedOutputIsCaffesLogWithoutControlCharacters) {
  const ProcessResult result = Train();
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* expected :
       {"] Iteration 20 (", "] Iteration 20, lr = 0.01", "]     Train net output #0: loss = ",
        "] Iteration 20, Testing net (#0)", "]     Test net output #0: loss = "}) {
    EXPECT_NE(result.err.find(expected), std::string::npos) << expected << "\n" << result.err;
  }
  // Caffe's scripts expect month and day after the letter, without a year.
  EXPECT_EQ(result.err[0], 'I');
  EXPECT_EQ(result.err.find(' '), 5U) << result.err.substr(0, 40);
  EXPECT_EQ(result.err.find('\r'), std::string::npos);
  EXPECT_EQ(result.err.find('\033'), std::string::npos);
  EXPECT_EQ(result.err.find("iter 40/40"), std::string::npos);
}

TEST_F(Seeing, QuietInAPipeShowsWarningsOnly) {
  temp_.Write("snap_run", "a file where the run's folder would be");
  for (const char* flag : {"-q", "--quiet"}) {
    const ProcessResult result = Train({flag});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    for (const std::string& line : Split(result.err, '\n')) {
      EXPECT_TRUE(line.empty() || line[0] == 'W') << result.err;
    }
    EXPECT_NE(result.err.find("this run is not recorded: snap_run"), std::string::npos)
        << result.err;
  }
}

TEST_F(Seeing, VerboseTellsBuildTimeAndMemory) {
  const ProcessResult result = Train({"-v"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("] crema "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("--solver=solver.prototxt"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(" MiB at most"), std::string::npos) << result.err;
}

TEST_F(Seeing, LogFlagsThatMakeNoSenseAreRefused) {
  const ProcessResult both = Train({"-q", "-v"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_NE(both.err.find("--quiet or --verbose, not both"), std::string::npos) << both.err;
  const ProcessResult format = Train({"--log_format=jsno"});
  EXPECT_EQ(format.exit_code, 2);
  EXPECT_NE(format.err.find("'jsno' is not text or json (did you mean 'json'?)"), std::string::npos)
      << format.err;
  EXPECT_EQ(Train({"--histograms=-1"}).exit_code, 2);
}

// Each line as an object, read by protobuf's JSON reader.
std::vector<google::protobuf::Struct> JsonLinesOf(const std::string& text) {
  std::vector<google::protobuf::Struct> objects;
  for (const std::string& line : Split(text, '\n')) {
    if (line.empty()) continue;
    google::protobuf::Struct object;
    EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(line, &object).ok()) << line;
    objects.push_back(object);
  }
  return objects;
}

TEST_F(Seeing, JsonLogHasTimeSeverityMessageAndFields) {
  const ProcessResult result = Train({"--log_format=json", "-v"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::map<std::string, int> events;
  for (const google::protobuf::Struct& object : JsonLinesOf(result.err)) {
    for (const char* member : {"time", "severity", "message"}) {
      EXPECT_TRUE(object.fields().at(member).has_string_value()) << member;
    }
    if (object.fields().count("fields") == 0) continue;
    const auto& fields = object.fields().at("fields").struct_value().fields();
    if (fields.count("event") == 0) continue;
    const std::string event = fields.at("event").string_value();
    ++events[event];
    if (event == "iteration") {
      EXPECT_TRUE(fields.at("loss").has_number_value());
      EXPECT_TRUE(fields.at("lr").has_number_value());
    }
    if (event == "test") {
      EXPECT_TRUE(fields.at("test#0:loss").has_number_value());
    }
  }
  EXPECT_EQ(events, (std::map<std::string, int>{{"start", 1},
                                                {"iteration", 4},
                                                {"test", 3},
                                                {"snapshot", 2},
                                                {"final_loss", 1},
                                                {"end", 1}}));
}

TEST_F(Seeing, JsonLogHasErrorsToo) {
  temp_.Write("net.prototxt", std::string(kSeeingNet) + "layer { name: \"a\" typ: \"b\" }\n");
  const ProcessResult result = Train({"--log_format=json"});
  EXPECT_EQ(result.exit_code, 2);
  const auto lines = JsonLinesOf(result.err);
  ASSERT_FALSE(lines.empty());
  const auto& error = lines.back().fields();
  EXPECT_EQ(error.at("severity").string_value(), "error");
  const auto& fields = error.at("fields").struct_value().fields();
  EXPECT_EQ(fields.at("file").string_value(), "net.prototxt");
  EXPECT_EQ(fields.at("line").number_value(), 8);
  EXPECT_EQ(fields.at("exit_code").number_value(), 2);
}

TEST_F(Seeing, EveryCommandHasTheLogFlags) {
  for (const char* tool : {"train", "evaluate", "summary", "deploy", "upgrade"}) {
    const ProcessResult help = RunProcess({test::Bin(tool), "--help"});
    for (const char* flag : {"--quiet ", "--verbose ", "--log_format="}) {
      EXPECT_NE(help.out.find(flag), std::string::npos) << tool << " " << flag;
    }
  }
}

TEST_F(Seeing, TheRunHasAFolderBesideThePrefix) {
  ASSERT_EQ(Train().exit_code, 0);
  for (const char* file : {"run.json", "starts.jsonl", "net.prototxt", "solver.prototxt",
                           "metrics.csv", "metrics.jsonl"}) {
    EXPECT_TRUE(fs::exists(temp_.File("snap_run/" + std::string(file)))) << file;
  }
  const auto run = JsonLinesOf(temp_.Read("snap_run/run.json"));
  ASSERT_EQ(run.size(), 1U);
  EXPECT_EQ(run[0].fields().at("command").list_value().values(1).string_value(),
            "--solver=solver.prototxt");
  for (const auto& row : JsonLinesOf(temp_.Read("snap_run/metrics.jsonl"))) {
    EXPECT_TRUE(row.fields().at("iteration").has_number_value());
  }
  // The recorded run can be run again.
  const ProcessResult again = RunProcess(Command("snap_run/solver.prototxt"), temp_.path());
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(fs::exists(temp_.File("snap_run_2/run.json"))) << "a fresh run takes the next one";
}

TEST_F(Seeing, AResumedRunGoesOnInItsFolderAndDoublesNoRow) {
  ASSERT_EQ(Train().exit_code, 0);
  const std::string whole = temp_.Read("snap_run/metrics.csv");
  const ProcessResult resumed = Train({"--snapshot=snap_iter_20.solverstate"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_FALSE(fs::exists(temp_.File("snap_run_2")));
  const std::string after = temp_.Read("snap_run/metrics.csv");
  EXPECT_EQ(CountOf(after, "\n"), CountOf(whole, "\n")) << after;
  EXPECT_EQ(CountOf(after, "\ntrain,20,"), 1U);
  EXPECT_EQ(CountOf(after, "\ntest,20,"), 1U);
  EXPECT_EQ(CountOf(temp_.Read("snap_run/starts.jsonl"), "\n"), 2U);
}

TEST_F(Seeing, TheRunFolderCanBeNamed) {
  ASSERT_EQ(Train({"--run=some/where"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(temp_.File("some/where/metrics.csv")));
  EXPECT_FALSE(fs::exists(temp_.File("snap_run")));
  const ProcessResult again = Train({"--run=some/where"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("some/where: the folder holds a run already"), std::string::npos)
      << again.err;
  temp_.Write("file", "");
  EXPECT_EQ(Train({"--run=file/run"}).exit_code, 3);
  ASSERT_EQ(Train({"--run=none"}).exit_code, 0);
  EXPECT_FALSE(fs::exists(temp_.File("snap_run")));
  EXPECT_FALSE(fs::exists(temp_.File("none")));
}

TEST_F(Seeing, ALogFolderDeletedWhileRunningEndsNothing) {
  Process train(Command("endless.prototxt"), temp_.path(), temp_.File("out"), temp_.File("err"));
  const auto recorded = [&] { return fs::exists(temp_.File("snap_run/metrics.csv")); };
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(WaitUntil(recorded)) << temp_.Read("err");
    std::error_code busy;  // it is filled again meanwhile
    fs::remove_all(temp_.File("snap_run"), busy);
  }
  ASSERT_TRUE(WaitUntil(recorded)) << temp_.Read("err");
  EXPECT_TRUE(train.IsRunning());
  train.Signal(SIGINT);
  EXPECT_EQ(train.Wait(), 0) << temp_.Read("err");
  EXPECT_EQ(CountOf(temp_.Read("err"), "was deleted while the run writes to it"), 1U);
  EXPECT_EQ(CountFiles(".solverstate"), 1U);
}

}  // namespace
}  // namespace crema
