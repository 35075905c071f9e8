#include "format/file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "core/machine_limits.h"
#include "core/strings.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::Contains;
using test::ErrorOf;
using test::ProblemsOf;
using test::TempDir;

TEST(ReadFile, GivesAllBytes) {
  const TempDir folder;
  const std::string bytes(100001, '\0');
  EXPECT_EQ(ReadFile(folder.Write("a", bytes)), bytes);
  EXPECT_EQ(ReadFile(folder.Write("b", "")), "");
  EXPECT_EQ(ReadFileStart(folder.Write("c", "abcdef"), 4), "abcd");
  EXPECT_EQ(ReadFileStart(folder.Write("d", "ab"), 4), "ab");
}

TEST(ReadFile, TooLargeIsRefusedBeforeItIsRead) {
  const TempDir folder;
  const std::string path = folder.Write("big", "");
  std::filesystem::resize_file(path, (uint64_t{1} << 31));  // a hole, not blocks
  const auto problems = ProblemsOf([&] { ReadFile(path); });
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].code, ErrorCode::kDataLoss);
}

TEST(AtomicFile, ReplacesTheWholeFile) {
  const TempDir folder;
  const std::string path = folder.Write("f", "old contents that are longer");
  WriteFileAtomically(path, "new");
  EXPECT_EQ(folder.Read("f"), "new");
  EXPECT_EQ(folder.FileCount(), 1u);
}

TEST(AtomicFile, WithoutCommitNothingChanges) {
  const TempDir folder;
  const std::string path = folder.Write("f", "old");
  {
    AtomicFile file(path);
    file.Write("half of the n");
    EXPECT_EQ(folder.FileCount(), 2u);
  }
  EXPECT_EQ(folder.Read("f"), "old");
  EXPECT_EQ(folder.FileCount(), 1u);
}

TEST(AtomicFile, TwoWritersOfOnePathDoNotMeet) {
  const TempDir folder;
  const std::string path = folder.File("f");
  AtomicFile first(path);
  AtomicFile second(path);
  EXPECT_NE(first.temporary(), second.temporary());
  first.Write(std::string(1000, 'x'));
  second.Write("whole");
  second.Commit();
  EXPECT_EQ(folder.Read("f"), "whole");
  first.Commit();
  EXPECT_EQ(folder.Read("f"), std::string(1000, 'x'));
  EXPECT_EQ(folder.FileCount(), 1u);
}

// As seen from another container, in which this process has no number.
TEST(AtomicFile, OnlyFilesWithoutAWriterAreAbandoned) {
  const TempDir folder;
  const std::string path = folder.File("f");
  AtomicFile file(path);
  EXPECT_EQ(NameOfAbandoned(file.temporary()), "f") << "as if its process were gone";
  file.Write("half");
  EXPECT_EQ(NameOfAbandoned(file.temporary()), "");
  RemoveAbandoned(path);
  file.Commit();
  EXPECT_EQ(folder.Read("f"), "half");
  const std::string left = folder.Write("f.tmp." + HostName() + ".4194305-0123456789abcdef", "x");
  const std::string other = folder.Write("f.tmp." + HostName() + ".4194305-0123x", "x");
  EXPECT_EQ(NameOfAbandoned(left), "f");
  EXPECT_EQ(NameOfAbandoned(other), "");
  RemoveAbandoned(path);
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(other));
}

// Writes beyond a limit fail, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(AtomicFile, FailedWriteLeavesTheOldFileAndNoOther) {
  const TempDir folder;
  const std::string path = folder.Write("f", "old");
  std::vector<Problem> problems;
  {
    const FileSizeLimit limit(1000);
    problems = ProblemsOf([&] { WriteFileAtomically(path, std::string(5000, 'x')); });
  }
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].code, ErrorCode::kIoFailure);
  EXPECT_EQ(problems[0].where.file, path);
  EXPECT_EQ(folder.Read("f"), "old");
  EXPECT_EQ(folder.FileCount(), 1u);
}

TEST(AtomicFile, MissingFolderIsNamed) {
  const TempDir folder;
  EXPECT_TRUE(Contains(ErrorOf([&] { WriteFileAtomically(folder.File("no/f"), "x"); }),
                       "the folder '" + folder.File("no") + "' does not exist; create it first"));
}

TEST(AtomicFile, AFileInPlaceOfTheFolderIsCalledAFile) {
  const TempDir folder;
  const std::string file = folder.Write("f", "x");
  for (const std::string& path : {file + "/d", file + "/e/d"}) {
    EXPECT_TRUE(Contains(ErrorOf([&] { WriteFileAtomically(path, "x"); }),
                         "'" + file + "' is a file, not a folder"));
  }
}

TEST(ReadFile, APathInAFormThatIsNotReadIsExplained) {
  constexpr std::pair<const char*, const char*> kPaths[] = {
      {"", "there is no such file; the path is empty"},
      {"~/net.pt", "there is no such file; '~' is not expanded here: write the whole path"},
      {"$HOME/net.pt", "; variables are not expanded here"},
      {"https://example.com/net.pt", "; it is an address: download the file first"},
      {"C:\\Users\\net.pt", "; write '/' in a path, not '\\'"},
  };
  for (const auto& [path, message] : kPaths) {
    EXPECT_TRUE(Contains(ErrorOf([&, path = path] { ReadFile(path); }), message)) << path;
  }
}

TEST(AtomicFile, AFolderThatTakesNoFilesIsNotCalledMissing) {
  try {
    WriteFileAtomically("/proc/x", "abc");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the folder '/proc' takes no files"),
              std::string::npos)
        << error.what();
  }
}

TEST(ReadFile, NamesOnlyWhatIsNearlyTheSame) {
  const test::TempDir temp;
  temp.Write("solver.prototxt", "");
  EXPECT_EQ(DidYouMeanPath(temp.File("sovler.prototxt")),
            " (did you mean '" + temp.File("solver.prototxt") + "'?)");
  EXPECT_EQ(DidYouMeanPath(temp.File("trains.prototxt")), "");
  EXPECT_EQ(DidYouMeanPath(temp.File("none/solver.prototxt")), "");
  EXPECT_EQ(DidYouMeanPath(temp.File("sovler.prototxt/")),
            " (did you mean '" + temp.File("solver.prototxt") + "'?)");
}

TEST(ReadFile, DoesNotLeadToAnotherPartOrAnotherIteration) {
  const test::TempDir temp;
  for (const char* name : {"set_test_lmdb", "set_val_lmdb", "iter_200.caffemodel", "x9"}) {
    temp.Write(name, "");
  }
  EXPECT_EQ(DidYouMeanPath(temp.File("set_tran_lmdb")), "");
  EXPECT_EQ(DidYouMeanPath(temp.File("set_train_lmdb")), "");
  EXPECT_EQ(DidYouMeanPath(temp.File("iter_100.caffemodel")), "");
  EXPECT_EQ(DidYouMeanPath(temp.File("x8")), "");
  EXPECT_NE(DidYouMeanPath(temp.File("set_tst_lmdb")), "");
  EXPECT_NE(DidYouMeanPath(temp.File("iter_20.caffemodel")), "");
}

// Opening a pipe without a writer would wait for ever.
TEST(ReadFile, RefusesPipesWithANameAndReadsThoseOfAShell) {
  const TempDir folder;
  const std::string pipe = folder.File("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(Contains(ErrorOf([&] { ReadFile(pipe); }), "is a pipe or a device; give a file"));

  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  std::thread writer([&] {
    EXPECT_EQ(::write(ends[1], "text", 4), 4);
    ::close(ends[1]);
  });
  EXPECT_EQ(ReadFile(StrCat("/proc/self/fd/", ends[0])), "text");
  writer.join();
  ::close(ends[0]);
}

TEST(AtomicFile, FoldersAndPipesAreNotReplaced) {
  const TempDir folder;
  EXPECT_TRUE(Contains(ErrorOf([&] { WriteFileAtomically(folder.path(), "x"); }), "not a file"));
  EXPECT_EQ(folder.FileCount(), 0u);
  // A pipe, not /dev/null: should it be replaced, nobody else misses it.
  const std::string pipe = folder.File("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(Contains(ErrorOf([&] { WriteFileAtomically(pipe, "x"); }), "not a file"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(folder.FileCount(), 1u);
}

TEST(AtomicFile, FullDiskSaysHowMuchIsNeeded) {
  const TempDir folder;
  const std::string error = ErrorOf([&] { FailWrite(folder.File("f"), ENOSPC, 12345); });
  EXPECT_TRUE(Contains(error, "the disk is full: 12345 bytes are needed, ")) << error;
  EXPECT_TRUE(Contains(error, folder.File("f")));
}

}  // namespace
}  // namespace crema
