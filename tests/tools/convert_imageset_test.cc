#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/image/image.h"
#include "support/temp_dir.h"
#include "support/terminal.h"
#include "tools/data_set.h"
#include "tools/stopped.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

void MakeSocket(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  const int file = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(file, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(file);
}

class ConvertImageset : public ::testing::Test {
 protected:
  ConvertImageset() {
    Add("a.png", Pattern(4, 6));
    Add("b c.png", Pattern(8, 6, 3, 30));
    Add("sub/d.png", Pattern(4, 6, 1));
    list_ = temp_.Write("list.txt", "a.png 3\nb c.png 0\n\nsub/d.png 7\n");
  }

  void Add(const std::string& name, const Image& image) {
    fs::create_directories(fs::path(temp_.File("root/" + name)).parent_path());
    temp_.Write("root/" + name, Png(image));
  }

  // Appends root, list and output to the flags.
  ProcessResult Run(std::vector<std::string> flags, const std::string& output = "db") {
    flags.insert(flags.end(), {temp_.File("root/"), list_, temp_.File(output)});
    return RunTool("convert_imageset", flags);
  }
  Records Converted(const std::vector<std::string>& flags) {
    fs::remove_all(temp_.File("db"));
    const ProcessResult result = Run(flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return ReadAll(temp_.File("db"));
  }

  TempDir temp_;
  std::string list_;
};

TEST_F(ConvertImageset, WritesPixelsUnderCaffesKeys) {
  const Records records = Converted({});
  EXPECT_EQ(Keys(records),
            (std::vector<std::string>{"00000000_a.png", "00000001_b c.png", "00000002_sub/d.png"}));
  const Datum first = ParseDatum(records[0].second);
  EXPECT_EQ(first.SerializeAsString(), RawDatum(Pattern(4, 6), 3).SerializeAsString());
  EXPECT_FALSE(first.encoded());
  const Datum gray = ParseDatum(records[2].second);
  EXPECT_EQ(gray.channels(), 3) << "color unless --gray";
  EXPECT_EQ(gray.label(), 7);
}

TEST_F(ConvertImageset, TheSameRecordsWithAnyNumberOfThreads) {
  const Records records = Converted({"-j", "1"});
  EXPECT_EQ(Converted({"-j", "8"}), records);
  EXPECT_EQ(Converted({"--threads=3"}), records);
  EXPECT_EQ(Run({"--threads=3", "-j", "4"}, "other").exit_code, 2);
}

TEST_F(ConvertImageset, GrayAndResized) {
  for (const auto& [key, value] : Converted({"--gray", "--resize_height=5", "--resize_width=7"})) {
    const Datum datum = ParseDatum(value);
    EXPECT_EQ(datum.channels(), 1) << key;
    EXPECT_EQ(datum.height(), 5);
    EXPECT_EQ(datum.width(), 7);
    EXPECT_EQ(datum.data().size(), 35U);
  }
  const Records records = Converted({"--resize_height=8", "--resize_width=3"});
  const Image expected = Resize(Pattern(4, 6), 8, 3);
  EXPECT_EQ(records[0].second, RawDatum(expected, 3).SerializeAsString()) << "bilinear";
}

TEST_F(ConvertImageset, ShortSideKeepsTheAspect) {
  const Records records = Converted({"--short_side=2"});
  EXPECT_EQ(ParseDatum(records[0].second).height(), 2);
  EXPECT_EQ(ParseDatum(records[0].second).width(), 3);
  EXPECT_EQ(ParseDatum(records[1].second).height(), 3) << "8 * 2 / 6, rounded";
  EXPECT_EQ(ParseDatum(records[1].second).width(), 2);
}

TEST_F(ConvertImageset, EncodedKeepsTheFilesOwnBytes) {
  for (const auto& flags : {std::vector<std::string>{"--encoded"}, {"--encode_type=png"}}) {
    const Records records = Converted(flags);
    const Datum datum = ParseDatum(records[0].second);
    EXPECT_TRUE(datum.encoded());
    EXPECT_EQ(datum.data(), temp_.Read("root/a.png"));
    EXPECT_FALSE(datum.has_channels()) << "as in Caffe";
    EXPECT_EQ(datum.label(), 3);
  }
}

TEST_F(ConvertImageset, EncodesWhatIsChanged) {
  for (const auto& flags :
       {std::vector<std::string>{"--encoded", "--resize_height=5", "--resize_width=7"},
        {"--encode_type=jpg", "--quality=95", "--resize_height=5", "--resize_width=7"}}) {
    const Datum datum = ParseDatum(Converted(flags)[0].second);
    EXPECT_TRUE(datum.encoded());
    EXPECT_EQ(datum.height(), 5);
    EXPECT_EQ(datum.data().starts_with("\xFF\xD8"), flags[0] == "--encode_type=jpg");
    Image image;
    DecodeImage(datum.data(), ColorMode::kAsStored, "it", &image);
    EXPECT_EQ(image.width, 7);
  }
  const Datum gray = ParseDatum(Converted({"--encoded", "--gray"})[0].second);
  EXPECT_EQ(gray.channels(), 1);
  Image image;
  DecodeImage(gray.data(), ColorMode::kAsStored, "it", &image);
  EXPECT_EQ(image.channels, 1) << "Caffe keeps the color file here";
}

TEST_F(ConvertImageset, QualityMatters) {
  Add("a.png", Pattern(64, 64));
  const auto size = [&](const char* quality) {
    return Converted({"--encode_type=jpg", quality})[0].second.size();
  };
  EXPECT_LT(size("--quality=10"), size("--quality=100"));
}

TEST_F(ConvertImageset, ShuffleIsAnOrderOfTheSeed) {
  std::string list;
  for (int i = 0; i < 40; ++i) list += StrCat("a.png ", i, "\n");
  list_ = temp_.Write("list.txt", list);
  const auto labels = [&](const std::vector<std::string>& flags) {
    std::vector<int> all;
    for (const auto& [key, value] : Converted(flags)) all.push_back(ParseDatum(value).label());
    return all;
  };
  const std::vector<int> in_order = labels({});
  const std::vector<int> shuffled = labels({"--shuffle"});
  EXPECT_EQ(shuffled, labels({"--shuffle", "--seed=1"}));
  EXPECT_NE(shuffled, labels({"--shuffle", "--seed=2"}));
  EXPECT_NE(shuffled, in_order);
  EXPECT_TRUE(std::is_permutation(shuffled.begin(), shuffled.end(), in_order.begin()));
}

TEST_F(ConvertImageset, CheckSizeNamesBothImages) {
  const ProcessResult result = Run({"--check_size"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.err, "b c.png' (line 2")) << result.err;
  EXPECT_TRUE(Contains(result.err, "3x8x6")) << result.err;
  EXPECT_TRUE(Contains(result.err, "a.png' (line 1")) << result.err;
  EXPECT_EQ(Converted({"--check_size", "--resize_height=4", "--resize_width=4"}).size(), 3U);
}

TEST_F(ConvertImageset, OtherSizesAreAWarningWithoutIt) {
  const std::string hint = "a Data layer reads images of several sizes with crop_size only";
  const ProcessResult mixed = Run({});
  EXPECT_EQ(mixed.exit_code, 0) << mixed.err;
  EXPECT_TRUE(Contains(mixed.err, hint)) << mixed.err;
  std::filesystem::remove_all(temp_.File("db"));
  const ProcessResult resized = Run({"--resize_height=4", "--resize_width=4"});
  EXPECT_EQ(resized.exit_code, 0) << resized.err;
  EXPECT_FALSE(Contains(resized.err, hint)) << resized.err;
}

TEST_F(ConvertImageset, BadImagesAreErrorsOrSkipped) {
  temp_.Write("root/b c.png", temp_.Read("root/a.png").substr(0, 60));
  list_ = temp_.Write("list.txt", "a.png 3\nb c.png 0\nmissing.png 1\nsub/d.png 7\nsub 1\n");
  const ProcessResult stopped = Run({});
  EXPECT_EQ(stopped.exit_code, 3);
  EXPECT_TRUE(Contains(stopped.err, "b c.png' (line 2 of '" + list_ + "')")) << stopped.err;
  EXPECT_TRUE(Contains(stopped.err, "--on_bad=skip")) << stopped.err;

  const ProcessResult skipped = Run({"--on_bad=skip"}, "skipped");
  EXPECT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_TRUE(Contains(skipped.out, "Wrote 2 images")) << skipped.out;
  EXPECT_TRUE(Contains(skipped.out, "skipped 3")) << skipped.out;
  EXPECT_TRUE(Contains(skipped.err, "missing.png' (line 3")) << skipped.err;
  EXPECT_EQ(Keys(ReadAll(temp_.File("skipped"))),
            (std::vector<std::string>{"00000000_a.png", "00000003_sub/d.png"}))
      << "the number is that of the list, as in Caffe";

  list_ = temp_.Write("list.txt", "missing.png 1\n");
  EXPECT_EQ(Run({"--on_bad=skip"}, "none").exit_code, 3);
  EXPECT_FALSE(fs::exists(temp_.File("none")));
  EXPECT_FALSE(fs::exists(temp_.File("none.unfinished")));
}

// These pipes have no writer, so reading one would block indefinitely.
TEST_F(ConvertImageset, PipesAndSocketsAreNoImagesAndNoLists) {
  ASSERT_EQ(mkfifo(temp_.File("root/pipe.png").c_str(), 0600), 0);
  MakeSocket(temp_.File("root/socket.png"));
  list_ = temp_.Write("list.txt", "a.png 3\npipe.png 1\nsocket.png 2\nsub/d.png 7\n");
  const ProcessResult stopped = Run({});
  EXPECT_EQ(stopped.exit_code, 3);
  EXPECT_TRUE(Contains(stopped.err, "pipe.png' (line 2 of '")) << stopped.err;
  EXPECT_TRUE(Contains(stopped.err, "is a pipe or a device")) << stopped.err;
  const ProcessResult skipped = Run({"--on_bad=skip"}, "skipped");
  EXPECT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_TRUE(Contains(skipped.out, "Wrote 2 images")) << skipped.out;
  EXPECT_TRUE(Contains(skipped.out, "skipped 2")) << skipped.out;
  EXPECT_TRUE(Contains(skipped.err, "socket.png' (line 3")) << skipped.err;
  for (const char* name : {"pipe.txt", "pipe.csv"}) {
    list_ = temp_.File(name);
    ASSERT_EQ(mkfifo(list_.c_str(), 0600), 0);
    const ProcessResult result = Run({}, "other");
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_TRUE(Contains(result.err, StrCat(name, ": is a pipe or a device"))) << result.err;
    EXPECT_FALSE(fs::exists(temp_.File("other")));
  }
}

// Shared with ImageData, whose fields do not exist on a command line.
TEST_F(ConvertImageset, MessagesAreRightWithoutANet) {
  const ProcessResult swapped =
      RunTool("convert_imageset", {list_, temp_.File("root/"), temp_.File("db")});
  EXPECT_EQ(swapped.exit_code, 2);
  EXPECT_TRUE(Contains(swapped.err, "is a file: the order is ROOTFOLDER LISTFILE DB_NAME"));
  const ProcessResult folder =
      RunTool("convert_imageset", {temp_.File("root/"), temp_.path(), temp_.File("db")});
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_FALSE(Contains(folder.err, "root_folder")) << folder.err;
  EXPECT_TRUE(Contains(folder.err, "is a folder of classes, not a list")) << folder.err;
  list_ = temp_.Write("list.txt", "a.png 0.5\n");
  const ProcessResult half = Run({});
  EXPECT_EQ(half.exit_code, 3);
  EXPECT_TRUE(Contains(half.err, "the layer ImageData takes any number")) << half.err;
}

TEST_F(ConvertImageset, AnErrorKeepsTarShardsThatCannotGoOn) {
  temp_.Write("root/sub/d.png", "no image");
  const ProcessResult failed = Run({"--backend=tar", "--encoded"});
  EXPECT_EQ(failed.exit_code, 3);
  EXPECT_TRUE(Contains(failed.err, "keeps the 2 images")) << failed.err;
  EXPECT_TRUE(Contains(failed.err, "cannot be continued")) << failed.err;
  EXPECT_FALSE(Contains(failed.err, "--resume")) << failed.err;
  EXPECT_EQ(ReadAll(temp_.File("db")).size(), 2U);
}

TEST_F(ConvertImageset, AnErrorKeepsWhatWasWrittenForResume) {
  const Records whole = Converted({});
  fs::remove_all(temp_.File("db"));
  const std::string good = temp_.Read("root/sub/d.png");
  temp_.Write("root/sub/d.png", "no image");
  EXPECT_EQ(Run({}).exit_code, 3);
  EXPECT_EQ(ReadAll(temp_.File("db")).size(), 2U);
  const ProcessResult again = Run({});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_TRUE(Contains(again.err, "--resume")) << again.err;
  temp_.Write("root/sub/d.png", good);
  EXPECT_EQ(Run({"--gray", "--resume"}).exit_code, 2) << "of other images";
  const ProcessResult resumed = Run({"--resume"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(ReadAll(temp_.File("db")), whole);
  EXPECT_FALSE(fs::exists(temp_.File("db.unfinished")));
  EXPECT_TRUE(Contains(Run({"--resume"}).out, "complete already"));
}

TEST_F(ConvertImageset, AFinishedSetOfOtherImagesIsNotComplete) {
  ASSERT_EQ(Run({}).exit_code, 0);
  const std::string list = temp_.Read("list.txt");
  temp_.Write("list.txt", list + "a.png 1\n");
  const ProcessResult more = Run({"--resume"});
  EXPECT_EQ(more.exit_code, 2) << more.err;
  EXPECT_TRUE(Contains(more.err, "was finished with the first")) << more.err;
  temp_.Write("list.txt", "a.png 1\n");
  const ProcessResult other = Run({"--resume"});
  EXPECT_EQ(other.exit_code, 2) << other.err;
  EXPECT_TRUE(Contains(other.err, "so it was made of other images; choose another path"));
}

TEST_F(ConvertImageset, ClassFolders) {
  const TempDir folders;
  fs::create_directories(folders.File("zebra/deep"));
  fs::create_directories(folders.File("ant"));
  folders.Write("zebra/2.png", Png(Pattern(2, 2)));
  folders.Write("zebra/deep/1.png", Png(Pattern(2, 2)));
  folders.Write("ant/3.PNG", Png(Pattern(2, 2)));
  folders.Write("ant/readme.txt", "no image");
  const std::string classes = temp_.File("classes.txt");
  const ProcessResult result =
      RunTool("convert_imageset", {"--classes=" + classes, folders.path(), temp_.File("db")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Records records = ReadAll(temp_.File("db"));
  EXPECT_EQ(Keys(records), (std::vector<std::string>{"00000000_ant/3.PNG", "00000001_zebra/2.png",
                                                     "00000002_zebra/deep/1.png"}));
  EXPECT_EQ(ParseDatum(records[0].second).label(), 0);
  EXPECT_EQ(ParseDatum(records[2].second).label(), 1);
  EXPECT_EQ(temp_.Read("classes.txt"), "ant\nzebra\n");
  EXPECT_EQ(temp_.Read("db/labels.txt"), "ant\nzebra\n") << "for runs that train on it";
  EXPECT_EQ(RunTool("convert_imageset", {folders.File("none"), temp_.File("x")}).exit_code, 2);
  EXPECT_EQ(RunTool("convert_imageset", {folders.File("ant"), temp_.File("x")}).exit_code, 3);
}

TEST_F(ConvertImageset, Csv) {
  list_ = temp_.Write("list.csv", "file,class\n\"b c.png\",4\na.png, 2\n");
  const Records records = Converted({});
  EXPECT_EQ(Keys(records), (std::vector<std::string>{"00000000_b c.png", "00000001_a.png"}));
  EXPECT_EQ(ParseDatum(records[1].second).label(), 2);
  list_ = temp_.Write("list.csv", "a.png,2\nb c.png,four\n");
  const ProcessResult result = Run({}, "other");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.err, "list.csv:2:1: the label 'four' after ")) << result.err;
  list_ = temp_.Write("list.csv", "a.png,two\nb c.png,4\n");
  const ProcessResult first = Run({}, "other");
  EXPECT_EQ(first.exit_code, 3) << "a misspelt label is no heading";
  EXPECT_TRUE(Contains(first.err, "list.csv:1:1: the label 'two' after ")) << first.err;
}

TEST_F(ConvertImageset, RefusesFlagsThatMakeNoSense) {
  for (const auto& flags : std::vector<std::vector<std::string>>{
           {"--resize_width=5"},
           {"--short_side=5", "--resize_width=5", "--resize_height=5"},
           {"--quality=50"},
           {"--quality=101", "--encode_type=jpg"},
           {"--on_bad=ignore"},
           {"--backend=lmbd"},
           {"--encode_type=xyz"},
           {"--classes=c.txt"}}) {
    const ProcessResult result = Run(flags);
    EXPECT_EQ(result.exit_code, 2) << flags[0] << result.err;
    EXPECT_FALSE(fs::exists(temp_.File("db"))) << flags[0];
  }
  EXPECT_TRUE(Contains(Run({"--backend=lmbd"}).err, "did you mean 'lmdb'"));
  EXPECT_EQ(RunTool("convert_imageset", {"one"}).exit_code, 2);
  EXPECT_TRUE(Contains(RunTool("convert_imageset", {"--help"}).out, "--encode_type"));
}

// A list of small images, followed by some that take long.
class Stopped : public ConvertImageset {
 protected:
  void Prepare(int small) {
    Add("slow.png", SlowImage());
    std::string list;
    for (int i = 0; i < small + 40; ++i)
      list += StrCat(i < small ? "a.png " : "slow.png ", i, "\n");
    list_ = temp_.Write("list.txt", list);
    whole_ = Converted({"--resize_height=4", "--resize_width=6"});
    fs::remove_all(db_);
  }
  std::vector<std::string> Command() {
    return {Bin("convert_imageset"),
            "--resize_height=4",
            "--resize_width=6",
            "-j",
            "1",
            temp_.File("root/"),
            temp_.File("list.txt"),
            db_};
  }
  int Stop(int signal, const std::function<bool()>& begun) {
    return StopInTheMiddle(temp_, Command(), db_, signal, begun);
  }
  const std::string db_ = temp_.File("db");
  Records whole_;
};

TEST_F(Stopped, ByCtrlCLeavesADataSetThatGoesOn) {
  Prepare(1000);
  for (const int signal : {SIGINT, SIGTERM}) {
    ASSERT_EQ(Stop(signal, [&] { return HasCommitted(db_); }), 130) << temp_.Read("stderr");
    EXPECT_TRUE(Contains(temp_.Read("stderr"), "--resume")) << temp_.Read("stderr");
    const size_t written = ReadAll(db_).size();
    EXPECT_GE(written, 1000U);
    EXPECT_LT(written, 1040U);
    EXPECT_TRUE(fs::exists(db_ + ".unfinished"));
    ExpectGoesOn(Command(), db_, whole_);
  }
}

TEST_F(Stopped, ResumesAfterTheLastCommitWhenKilled) {
  Prepare(1000);
  ASSERT_EQ(Stop(SIGKILL, [&] { return HasCommitted(db_); }), 128 + SIGKILL);
  EXPECT_EQ(ReadAll(db_).size(), 1000U);
  ExpectGoesOn(Command(), db_, whole_);
}

TEST_F(Stopped, KilledBeforeTheFirstCommit) {
  Prepare(0);
  constexpr uint64_t kEmpty = 8192;  // bytes of an LMDB that is empty
  ASSERT_EQ(Stop(SIGKILL, [&] { return HasBytes(db_ + "/data.mdb", kEmpty); }), 128 + SIGKILL);
  ExpectGoesOn(Command(), db_, whole_);
}

TEST_F(Stopped, ATerminalShowsOneLine) {
  Prepare(20);
  Terminal terminal(80);
  terminal.Start(Command(), temp_.path());
  EXPECT_EQ(terminal.Wait(), 0);
  EXPECT_TRUE(terminal.screen().wrapped().empty());
  EXPECT_TRUE(Contains(terminal.screen().text(), "Wrote 60 images")) << terminal.screen().text();
}

}  // namespace
}  // namespace crema::test
#endif
