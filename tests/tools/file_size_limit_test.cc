// Commands that write more than `ulimit -f` allows, like on a full disk.
#if defined(CREMA_HAVE_OPENCV) && defined(CREMA_HAVE_HDF5)
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/record_sets.h"
#include "tools/convert_db.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

class FileSizeLimit : public ConvertDb {
 protected:
  // Blocks have 512 or 1024 bytes, depending on the shell.
  static ProcessResult RunLimited(const std::string& blocks,
                                  const std::vector<std::string>& command) {
    std::vector<std::string> limited = {"/bin/sh", "-c", "ulimit -f " + blocks + "; exec \"$@\"",
                                        "sh"};
    limited.insert(limited.end(), command.begin(), command.end());
    return RunProcess(limited);
  }
};

TEST_F(FileSizeLimit, ConversionsFailAndLeaveNothing) {
  std::vector<Datum> datums;
  for (int i = 0; i < 3000; ++i) datums.push_back(RawDatum(Pattern(16, 16, 1, i), i));
  WriteSet(File("db"), datums);
  const bool leveldb = testing::CanWrite(DataParameter::LEVELDB, temp_);
  for (const char* kind : {"lmdb", "leveldb", "tar", "out.tar", "hdf5"}) {
    if (std::string(kind) == "leveldb" && !leveldb) continue;
    const std::string output = File(StrCat("out_", kind));
    const std::string backend = std::string(kind) == "out.tar" ? "tar" : kind;
    const ProcessResult result = RunLimited(
        "300", {Bin("convert_db"), "--backend=" + backend, "-j", "1", File("db"), output});
    EXPECT_EQ(result.exit_code, 3) << kind << result.err;
    EXPECT_TRUE(Contains(result.err, output)) << result.err;
    EXPECT_TRUE(Contains(result.err, "the limit on the size of files")) << kind << result.err;
    EXPECT_FALSE(Contains(result.err, ".tmp.")) << result.err;
    EXPECT_FALSE(fs::exists(output)) << kind;
    EXPECT_FALSE(fs::exists(output + ".unfinished")) << kind;
  }
}

// Written images are kept after an error, unless writing itself failed.
TEST_F(FileSizeLimit, ConvertImagesetFailsAndLeavesNothing) {
  fs::create_directory(File("root"));
  temp_.Write("root/a.png", Png(Pattern(16, 16)));
  std::string list;
  for (int i = 0; i < 2500; ++i) list += "a.png 1\n";
  temp_.Write("list.txt", list);
  const ProcessResult result =
      RunLimited("1200", {Bin("convert_imageset"), File("root/"), File("list.txt"), File("out")});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_FALSE(fs::exists(File("out")));
  EXPECT_FALSE(fs::exists(File("out.unfinished")));
}

TEST_F(FileSizeLimit, AMeanImageFailsAndSaysWhy) {
  WriteSet(File("db"), std::vector<Datum>{RawDatum(Pattern(400, 400), 0)});
  const ProcessResult result =
      RunLimited("300", {Bin("compute_image_mean"), File("db"), File("mean")});
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_TRUE(Contains(result.err, "the limit on the size of files")) << result.err;
  EXPECT_FALSE(fs::exists(File("mean")));
}

}  // namespace
}  // namespace crema::test
#endif
