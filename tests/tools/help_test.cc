// --help of all commands, their manuals, and completions of shells.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/strings.h"
#include "format/file.h"
#include "support/error_text.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "support/terminal.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::Bin;
using test::Contains;
using test::ProcessResult;
using test::RunProcess;

// Returns the commands of this build: each file in tools/ that was built.
std::vector<std::string> Commands() {
  std::vector<std::string> commands;
  for (const auto& entry : fs::directory_iterator(std::string(CREMA_SOURCE_DIR) + "/tools")) {
    const fs::path& file = entry.path();
    if (file.extension() == ".cc" && fs::exists(Bin(file.stem()))) commands.push_back(file.stem());
  }
  return commands;
}

std::string HelpOf(std::vector<std::string> words) {
  words[0] = Bin(words[0]);
  words.emplace_back("--help");
  const ProcessResult help = RunProcess(words);
  EXPECT_EQ(help.exit_code, 0) << words[0];
  EXPECT_EQ(help.err, "") << words[0];
  return help.out;
}

TEST(Help, OfEveryCommandFits80ColumnsAndEndsInExamples) {
  ASSERT_GE(Commands().size(), 20U);
  for (const std::string& command : Commands()) {
    const std::string help = HelpOf({command});
    EXPECT_TRUE(help.starts_with("usage: crema " + command)) << help;
    for (const std::string& line : Split(help, '\n')) EXPECT_LE(line.size(), 80U) << line;
    const size_t examples = help.find("\nExamples:\n");
    ASSERT_NE(examples, std::string::npos) << command;
    EXPECT_GE(Split(help.substr(examples), '\n').size(), 5U) << command << ": two at least";
    for (const char* part : {"[Input", "[Output", "[Run", "[Device", "[Expert", "99999", "00001"}) {
      EXPECT_FALSE(Contains(help, part)) << command << " " << part;
    }
  }
}

TEST(Help, RequiredFlagsComeFirstAndSayIt) {
  const std::string help = HelpOf({"train"});
  EXPECT_TRUE(
      Contains(help, "\nInput:\n  --solver=FILE           the solver, a prototxt (required)"))
      << help;
  const std::vector<std::string> groups = {"\nInput:\n", "\nOutput:\n", "\nRun:\n", "\nExpert:\n"};
  size_t place = 0;
  for (const std::string& group : groups) {
    EXPECT_GT(help.find(group), place) << group;
    place = help.find(group);
  }
  EXPECT_TRUE(Contains(HelpOf({"deploy", "classify"}), "(default 5)"));
  EXPECT_TRUE(Contains(HelpOf({"deploy", "detect"}), "(default 0.6)"));
  EXPECT_TRUE(Contains(HelpOf({"devices"}), "--[no]measure"));
}

TEST(Help, OfAnActionHasItsFlagsOnly) {
  const std::string all = HelpOf({"deploy"});
  const std::string classify = HelpOf({"deploy", "classify"});
  EXPECT_TRUE(Contains(all, "--opset=N"));
  EXPECT_TRUE(Contains(all, "classify: number of classes"));
  EXPECT_TRUE(Contains(classify, "--top=N"));
  EXPECT_TRUE(Contains(classify, "--model=FILE"));
  EXPECT_TRUE(Contains(classify, "crema deploy classify --model=lenet.crema digit.png"));
  for (const char* other : {"--opset", "--masks", "--against", "deploy bench", "deploy export -"}) {
    EXPECT_FALSE(Contains(classify, other)) << other;
  }
  const std::string list = HelpOf({"weights", "list"});
  EXPECT_TRUE(Contains(list, "usage: crema weights list FILE\n\n")) << "an action without flags";
  EXPECT_FALSE(Contains(list, "--model") || Contains(list, "--atol")) << list;
}

TEST(Help, WrapsAtTheWidthOfTheTerminal) {
  test::Terminal terminal(50);
  terminal.Start({Bin("summary"), "--help"}, "/");
  EXPECT_EQ(terminal.Wait(), 0);
  EXPECT_TRUE(terminal.screen().wrapped().empty()) << terminal.screen().wrapped()[0];
  EXPECT_TRUE(Contains(terminal.screen().text(), "usage: crema summary"));
}

TEST(Help, OfTheFrontHasGroupsInColumns) {
  const ProcessResult help = RunProcess({Bin("crema"), "--help"});
  EXPECT_EQ(help.exit_code, 0) << help.err;
  for (const char* group : {"Train", "Data", "Look", "Deploy", "Convert"}) {
    EXPECT_TRUE(Contains(help.out, StrCat("\n", group, ":\n"))) << help.out;
  }
  for (const std::string& line : Split(help.out, '\n')) {
    EXPECT_LE(line.size(), 80U) << line;
    if (!line.starts_with("  ") || line.starts_with("   ")) continue;
    EXPECT_EQ(line.substr(20, 2), "  ") << line;
    EXPECT_NE(line[22], ' ') << line;
  }
  for (const std::string& command : Commands()) {
    EXPECT_TRUE(Contains(help.out, StrCat("\n  ", command, " "))) << command;
  }
}

class Manuals : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    temp_ = std::make_unique<test::TempDir>();
    std::vector<std::string> command = {"/bin/sh", CREMA_SOURCE_DIR "/scripts/manuals.sh",
                                        fs::path(Bin("train")).parent_path(), temp_->path()};
    for (const std::string& name : Commands()) command.push_back(name);
    const ProcessResult result = RunProcess(command);
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }

  // Completes the last of the words, as bash splits them; "=" is one.
  std::string Complete(const std::string& words, int count) const {
    const ProcessResult result =
        RunProcess({"/bin/bash", "-c",
                    StrCat("source bash-completion/completions/crema && COMP_WORDS=(", words,
                           ") COMP_CWORD=", count - 1, " && _crema && echo \"${COMPREPLY[*]}\"")},
                   temp_->path());
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return std::string(Trim(result.out));
  }

  static void TearDownTestSuite() { temp_.reset(); }

  static std::unique_ptr<test::TempDir> temp_;  // made once: all commands run
};

std::unique_ptr<test::TempDir> Manuals::temp_;

TEST_F(Manuals, AreRoffWithoutWarnings) {
  if (RunProcess({"/usr/bin/env", "groff", "--version"}).exit_code != 0) {
    GTEST_SKIP() << "groff is not installed";
  }
  for (const auto& page : fs::directory_iterator(temp_->File("man/man1"))) {
    const ProcessResult result =
        RunProcess({"/usr/bin/env", "groff", "-ww", "-man", "-Tascii", page.path()});
    EXPECT_EQ(result.exit_code, 0) << page.path();
    EXPECT_EQ(result.err, "") << page.path();
    EXPECT_TRUE(Contains(result.out, "crema")) << page.path();
  }
  EXPECT_TRUE(Contains(ReadFile(temp_->File("man/man1/crema-train.1")),
                       "crema\\-train \\- trains the net of a solver file\n"));
}

TEST_F(Manuals, BashCompletesCommandsFlagsActionsAndValues) {
  EXPECT_EQ(Complete("crema trai", 2), "train");
  EXPECT_EQ(Complete("crema train --solv", 3), "--solver=");
  EXPECT_EQ(Complete("crema deploy cl", 3), "classify");
  EXPECT_EQ(Complete("crema deploy classify --top", 4), "--top=");
  EXPECT_EQ(Complete("crema deploy classify --ops", 4), "");
  EXPECT_EQ(Complete("crema deploy export --ops", 4), "--opset=");
  EXPECT_EQ(Complete("crema weights li", 3), "list");
  EXPECT_EQ(Complete("crema train --log_format = j", 5), "json");
  EXPECT_EQ(Complete("crema train --log_format =", 4), "text json");
  temp_->Write("solver.prototxt", "");
  EXPECT_EQ(Complete("crema train --solver = sol", 5), "solver.prototxt");
  EXPECT_EQ(Complete("crema train sol", 3), "solver.prototxt");
  EXPECT_EQ(Complete("crema train --resume = a", 5), "auto");
  EXPECT_EQ(Complete("crema train --resume = sol", 5), "solver.prototxt");
  EXPECT_EQ(Complete("crema train --log_format = sol", 5), "");
}

TEST_F(Manuals, FishCompletesFlagsActionsAndValues) {
  if (RunProcess({"/usr/bin/env", "fish", "--version"}).exit_code != 0) {
    GTEST_SKIP() << "fish is not installed";
  }
  temp_->Write("solver.prototxt", "");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"crema train --solv", "--solver"},
      {"crema deploy cl", "classify"},
      {"crema deploy classify --to", "--top"},
      {"crema train --log_format=j", "--log_format=json"},
      {"crema train --log_format=sol", ""},
      {"crema train --resume=a", "--resume=auto"},
      {"crema train --resume=sol", "--resume=solver.prototxt"},
      {"crema devices --nom", "--nomeasure"}};
  for (const auto& [words, completed] : cases) {
    const ProcessResult result = RunProcess(
        {"/usr/bin/env", "fish", "-c",
         StrCat("source fish/vendor_completions.d/crema.fish; complete -C '", words, "'")},
        temp_->path());
    EXPECT_EQ(Split(Split(result.out, '\n')[0], '\t')[0], completed) << result.err;
  }
}

TEST_F(Manuals, ZshReadsItsCompletion) {
  const std::string file = temp_->File("zsh/site-functions/_crema");
  const std::string text = ReadFile(file);
  EXPECT_TRUE(Contains(text, "'--solver=[the solver, a prototxt]:value:_files'"));
  EXPECT_TRUE(
      Contains(text, "{_alternative \"values\\:value\\:(auto)\" \"files\\:file\\:_files\"}'"));
  EXPECT_TRUE(Contains(text, "'--nomeasure["));
  if (RunProcess({"/usr/bin/env", "zsh", "--version"}).exit_code != 0) {
    GTEST_SKIP() << "zsh is not installed";
  }
  const ProcessResult result = RunProcess({"/usr/bin/env", "zsh", "-n", file});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

class Positional : public ::testing::Test {
 protected:
  void SetUp() override {
    temp_.Write("net.prototxt",
                "layer { name: 'd' type: 'DummyData' top: 'x' dummy_data_param {"
                " shape { dim: 2 dim: 3 } } }\n"
                "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' loss_weight: 1\n"
                "  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }\n");
    temp_.Write("solver.prototxt",
                "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'fixed' max_iter: 2\n"
                "snapshot_prefix: 's'\n");
  }
  ProcessResult Run(std::vector<std::string> words) const {
    words[0] = Bin(words[0]);
    return RunProcess(words, temp_.path());
  }
  void ExpectRefused(const std::vector<std::string>& words, const std::string& message) const {
    const ProcessResult result = Run(words);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    EXPECT_EQ(result.err, StrCat("error: ", message, "\n"));
  }

  test::TempDir temp_;
};

TEST_F(Positional, ArgumentsStandForTheObviousFlag) {
  EXPECT_TRUE(Contains(Run({"summary", "net.prototxt"}).out, "ip"));
  EXPECT_TRUE(Contains(Run({"check", "solver.prototxt"}).out, "0 problems"));
  EXPECT_TRUE(Contains(Run({"plot_lr", "solver.prototxt"}).out, "0.01"));
  EXPECT_TRUE(Contains(Run({"train", "solver.prototxt"}).out, "trained to iteration 2"));
  EXPECT_EQ(Run({"draw", "net.prototxt", "net.dot"}).exit_code, 0);
  EXPECT_TRUE(fs::exists(temp_.File("net.dot")));
  EXPECT_EQ(Run({"evaluate", "net.prototxt", "s_iter_2.caffemodel", "--iterations=1"}).exit_code,
            0);
  EXPECT_EQ(
      Run({"evaluate", "--model=net.prototxt", "s_iter_2.caffemodel", "--iterations=1"}).exit_code,
      0);
}

TEST_F(Positional, SurplusAndMissingOnesAreRefused) {
  ExpectRefused({"train"}, "--solver is required; see --help");
  ExpectRefused({"evaluate", "net.prototxt"}, "--weights is required; see --help");
  ExpectRefused({"train", "--solver=solver.prototxt", "other"},
                "unexpected argument 'other'; flags are written --name=value");
  ExpectRefused({"summary", "net.prototxt", "other"},
                "unexpected argument 'other'; flags are written --name=value");
  ExpectRefused({"train", "--resume", "--solver=solver.prototxt"},
                "flag --resume needs a value: --resume=auto|STATE");
}

TEST_F(Positional, ValuesOfTheWrongKindAreRefused) {
  ExpectRefused({"train", "--threads=abc"}, "flag --threads takes a whole number, not 'abc'");
  ExpectRefused({"deploy", "detect", "--confidence=x"},
                "flag --confidence takes a number, not 'x'");
  ExpectRefused({"deploy", "classify", "--scale=1/256"},
                "flag --scale takes a number, not '1/256'; write 0.00390625");
  ExpectRefused({"new", "--split=20%"}, "flag --split takes a number, not '20%'; write 0.2");
  ExpectRefused({"make_digits", "--count=5k"},
                "flag --count takes a whole number, not '5k'; write 5000");
}

TEST_F(Positional, FormsThatAreNoFlagsAreExplained) {
  ExpectRefused({"train", "solver=s.prototxt"}, "flags begin with --: write --solver=s.prototxt");
  ExpectRefused({"train", "--model=net.prototxt"},
                "unknown flag --model: this command takes a solver, which names its net; crema new "
                "writes one");
  ExpectRefused({"serve", "m.crema", "--token=secret"},
                "unknown flag --token (did you mean 'token_file'?); --help lists the flags");
  ExpectRefused({"sweep", "--threads=1"},
                "unknown flag --threads; flags of train follow '--': crema sweep ... -- "
                "--threads=1");
  ExpectRefused({"deploy", "classify", "--json=out.json"},
                "flag --json takes true or false, not 'out.json'; the shell writes the output to a "
                "file: --json > FILE");
  ExpectRefused({"plot_lr", "solver.prototxt", "-o", "x.gif"},
                "unknown flag -o; --help lists the flags");
}

}  // namespace
}  // namespace crema
