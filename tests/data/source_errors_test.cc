// Reasons other than damage that prevent reading or writing a data set: permissions, pipes, cyclic
// links, address space, full disks.
#ifdef CREMA_HAVE_OPENCV
#include <gtest/gtest.h>
#include <lmdb.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "data/as_ordinary_user.h"
#include "data/expect_error.h"
#include "data/image_files.h"
#include "data/layer_runner.h"
#include "data/lists/file_reader.h"
#include "data/lists/image_list.h"
#include "data/lists/window_file.h"
#include "data/record_sets.h"
#include "data/transform/transformer.h"
#include "format/caffemodel.h"
#include "format/data_file.h"
#include "format/file.h"
#include "support/net.h"
#include "support/temp_dir.h"
#ifdef CREMA_HAVE_HDF5
#include "crema.pb.h"
#include "data/another_process.h"
#include "data/hdf5/hdf5_file.h"
#include "data/hdf5/hdf5_rows.h"
#endif

namespace crema {
namespace {

namespace fs = std::filesystem;
using test::TempDir;
using test::TestRegistry;
using testing::ExpectError;
using testing::InAnotherProcess;
using testing::LayerRunner;

std::string ImageLayer(const TempDir& temp, const std::vector<std::string>& paths) {
  std::string lines;
  for (const std::string& path : paths) lines += path + " 1\n";
  return StrCat("name: 'd' type: 'ImageData' top: 'd' image_data_param { batch_size: 2 source: '",
                temp.Write("list", lines), "' }");
}

std::string WriteImage(const TempDir& temp, const std::string& name) {
  return temp.Write(name, testing::Encode(testing::Flat(3, 3, 7)));
}

// Returns 0 if `body` throws this code with this text; else another number.
template <typename Body>
int ErrorIs(ErrorCode code, const std::string& text, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    const bool right =
        error.code() == code && std::string(error.what()).find(text) != std::string::npos;
    if (!right) std::fprintf(stderr, "%s\n", error.what());
    return right ? 0 : 1;
  }
  return 2;
}

TEST(SourceErrors, AnImageThatMayNotBeReadIsABadSample) {
  const TempDir temp;
  const std::string good = WriteImage(temp, "a.png");
  const std::string secret = WriteImage(temp, "b.png");
  const std::string layer = ImageLayer(temp, {good, secret});
  for (const std::string& path : {temp.path(), good, temp.File("list")}) chmod(path.c_str(), 0755);
  chmod(secret.c_str(), 0);
  const testing::AsOrdinaryUser user;
  LayerRunner strict(TestRegistry(), layer);
  ExpectError(ErrorCode::kIoFailure, "cannot be read: Permission denied (line 2 of",
              [&] { strict.Forward(); });
  LayerRunner skipping(TestRegistry(), layer + " pipeline_param { on_bad_sample: SKIP }");
  EXPECT_EQ(skipping.Collect(0, 2), std::vector<float>(2 * 2 * 27, 7));
}

// These pipes have no writer, so opening one would block indefinitely.
TEST(SourceErrors, PipesAreRefusedAndNotWaitedFor) {
  const TempDir temp;
  const std::string pipe = temp.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string good = WriteImage(temp, "a.png");
  const std::string layer = ImageLayer(temp, {good, pipe});
  const std::string text = "is a pipe or a device";
  EXPECT_EQ(InAnotherProcess([&] {
              return ErrorIs(ErrorCode::kDataLoss, text,
                             [&] { LayerRunner(TestRegistry(), layer).Forward(); });
            }),
            0);
  EXPECT_EQ(InAnotherProcess(
                [&] { return ErrorIs(ErrorCode::kDataLoss, text, [&] { OpenRecords(pipe); }); }),
            0);
  EXPECT_EQ(InAnotherProcess(
                [&] { return ErrorIs(ErrorCode::kDataLoss, text, [&] { ImageList(pipe, ""); }); }),
            0);
  EXPECT_EQ(InAnotherProcess([&] {
              return ErrorIs(ErrorCode::kDataLoss, text, [&] { ReadWindowFile(pipe, "", {}); });
            }),
            0);
  fs::create_directory(temp.File("set"));
  ASSERT_EQ(mkfifo(temp.File("set/data.mdb").c_str(), 0600), 0);
  EXPECT_EQ(InAnotherProcess([&] {
              return ErrorIs(ErrorCode::kDataLoss, "data.mdb' is not a file",
                             [&] { OpenRecords(temp.File("set")); });
            }),
            0);
#ifdef CREMA_HAVE_HDF5
  EXPECT_EQ(InAnotherProcess(
                [&] { return ErrorIs(ErrorCode::kDataLoss, text, [&] { Hdf5File file(pipe); }); }),
            0);
  EXPECT_EQ(InAnotherProcess([&] {
              return ErrorIs(ErrorCode::kDataLoss, text, [&] { Hdf5Set set(pipe, {"data"}); });
            }),
            0);
#endif
}

TEST(SourceErrors, PipesAreNoMeansLabelMapsOrDatabases) {
  const TempDir temp;
  const std::string pipe = temp.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string text = "is a pipe or a device";
  const auto refused = [&](auto&& read, ErrorCode code = ErrorCode::kDataLoss) {
    return InAnotherProcess([&] { return ErrorIs(code, text, read); });
  };
  EXPECT_EQ(refused([&] { ReadMeanImage(pipe); }), 0);
  EXPECT_EQ(refused([&] { ReadBlobProtoFile(pipe); }, ErrorCode::kInvalidArgument), 0);
  EXPECT_EQ(refused([&] { ReadLabelMap(pipe); }), 0);
  if (!testing::CanWrite(DataParameter::LEVELDB, temp)) return;
  for (const char* file : {"CURRENT", "000003.log", "LOG"}) {
    const std::string set = temp.File(StrCat("set_", file));
    fs::create_directory(set);
    temp.Write(StrCat("set_", file, "/CURRENT"), "MANIFEST-000002\n");
    fs::remove(StrCat(set, "/", file));
    ASSERT_EQ(mkfifo(StrCat(set, "/", file).c_str(), 0600), 0);
    EXPECT_EQ(refused([&] { OpenRecords(set); }), 0) << file;
    EXPECT_EQ(refused([&] { AppendRecords(set, DataParameter::LEVELDB); }), 0) << file;
  }
}

// Opening some devices has side effects: tapes rewind, terminals are taken.
TEST(SourceErrors, OnlyFilesAreAnnounced) {
  const TempDir temp;
  ASSERT_EQ(mkfifo(temp.File("pipe").c_str(), 0600), 0);
  temp.Write("file", "bytes");
  const auto opens = [&](const std::string& name) {
    const int events = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    EXPECT_GE(inotify_add_watch(events, temp.File(name).c_str(), IN_OPEN), 0);
    AnnounceReading(temp.File(name));
    inotify_event event{};
    const bool opened = read(events, &event, sizeof(event)) > 0;
    close(events);
    return opened;
  };
  EXPECT_TRUE(opens("file"));
  EXPECT_FALSE(opens("pipe"));
}

TEST(SourceErrors, ALackOfFileDescriptorsIsNoFaultOfTheSample) {
  const TempDir temp;
  const std::string path = temp.Write("image", "bytes");
  FileReader reader(nullptr);
  std::string storage;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  ExpectError(ErrorCode::kOutOfMemory, "Too many open files",
              [&] { reader.Read(0, path, &storage); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(reader.Read(0, path, &storage), "bytes");
}

TEST(SourceErrors, FoldersAndPipesInAListAreBadSamples) {
  const TempDir temp;
  const std::string good = WriteImage(temp, "a.png");
  ASSERT_EQ(mkfifo(temp.File("pipe").c_str(), 0600), 0);
  for (const std::string& path : {temp.path(), temp.File("pipe")}) {
    const std::string layer = ImageLayer(temp, {good, path});
    LayerRunner strict(TestRegistry(), layer);
    ExpectError(ErrorCode::kDataLoss, "(line 2 of", [&] { strict.Forward(); });
    LayerRunner skipping(TestRegistry(), layer + " pipeline_param { on_bad_sample: SKIP }");
    EXPECT_EQ(skipping.Collect(0, 1), std::vector<float>(2 * 27, 7));
  }
}

TEST(SourceErrors, ListsWithZeroBytesAreNone) {
  const TempDir temp;
  const std::string list = temp.Write("list", temp.path() + std::string("/a.png\0 1\n", 10));
  ExpectError(ErrorCode::kDataLoss, "list: is a binary file of another kind, not a list of images",
              [&] { ImageList(list, ""); });
  const std::string late = std::string(5000, '\n') + std::string("/a.png\0 1\n", 10);
  ExpectError(ErrorCode::kDataLoss, "list:5001:1: the path holds a zero byte",
              [&] { ImageList(temp.Write("list", late), ""); });
}

TEST(SourceErrors, ListsOfAnotherFormSayWhatToWrite) {
  const TempDir temp;
  const auto expect = [&](const std::string& text, const std::string& root,
                          const std::string& message, ErrorCode code = ErrorCode::kDataLoss) {
    const std::string list = temp.Write("list", text);
    ExpectError(code, message, [&] { ImageList(list, root); });
  };
  temp.Write("a.png", "");
  expect("\x89PNG\r\n\x1a\n", "", "list: is an image, not a list of images");
  expect("<html></html>", "", "is an HTML page, not a list of images");
  expect("a.png,3\n", "", "with commas, name the list .csv");
  expect("\"a.png\" 3\n", "", "list:1:1: write \"a.png\" without quotes");
  expect("a.png 3\n", temp.path(), "write '" + temp.path() + "/'", ErrorCode::kInvalidArgument);
  EXPECT_EQ(ImageList(temp.Write("list", "a.png 3\n"), temp.path() + "/").entries().size(), 1U);
}

TEST(SourceErrors, LinksThatGoRoundAreAnErrorOrPassedOver) {
  const TempDir temp;
  fs::create_symlink(temp.File("round"), temp.File("round"));
  ExpectError(ErrorCode::kIoFailure, "cannot be opened: Too many levels of symbolic links",
              [&] { OpenRecords(temp.File("round")); });
  const std::string good = WriteImage(temp, "a.png");
  LayerRunner runner(TestRegistry(), ImageLayer(temp, {good, temp.File("round")}));
  ExpectError(ErrorCode::kIoFailure, "Too many levels of symbolic links (line 2 of",
              [&] { runner.Forward(); });
  fs::create_directories(temp.File("pets/cat"));
  WriteImage(temp, "pets/cat/1.png");
  fs::create_directory_symlink("..", temp.File("pets/cat/up"));
  EXPECT_EQ(ImageList(temp.File("pets"), "").entries().size(), 1u);
}

// Caffe reserves a terabyte of addresses for each LMDB that it writes.
TEST(SourceErrors, AnLmdbOfALargeMapIsReadWithFewAddresses) {
  const TempDir temp;
  const std::string path = temp.File("set");
  fs::create_directory(path);
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_set_mapsize(env, size_t{1} << 40), 0);
  if (mdb_env_open(env, path.c_str(), 0, 0644) != 0) {
    mdb_env_close(env);
    GTEST_SKIP() << "no terabyte of addresses here";
  }
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  ASSERT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
  MDB_val key{3, const_cast<char*>("key")};
  MDB_val value{5, const_cast<char*>("value")};
  ASSERT_EQ(mdb_put(txn, dbi, &key, &value, 0), 0);
  ASSERT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
  EXPECT_EQ(OpenRecords(path)->Next().value, "value");
#ifndef CREMA_SANITIZED  // sanitizers need the addresses themselves
  EXPECT_EQ(InAnotherProcess([&] {
              const rlimit limit{rlim_t{16} << 30, rlim_t{16} << 30};
              if (setrlimit(RLIMIT_AS, &limit) != 0) return 3;
              try {
                return OpenRecords(path)->Next().value == "value" ? 0 : 1;
              } catch (const Error& error) {
                std::fprintf(stderr, "%s\n", error.what());
                return 2;
              }
            }),
            0);
#endif
}

// This limit stops writing in the middle, like a full disk.
TEST(SourceErrors, AFullDiskIsAnErrorAndTheFileIsRemoved) {
  const TempDir temp;
  for (const DataParameter::DB backend : testing::Backends(temp)) {
    const std::string path = temp.File("full");
    EXPECT_EQ(InAnotherProcess([&] {
                std::signal(SIGXFSZ, SIG_IGN);
                const rlimit limit{300'000, 300'000};  // bytes
                if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 3;
                return ErrorIs(ErrorCode::kIoFailure, path, [&] {
                  const auto writer = CreateRecords(path, backend);
                  for (int n = 0; n < 2000; ++n) {
                    const std::string image = testing::FakeJpeg(n) + std::string(1000, 'x');
                    writer->Put(testing::NumberedKey(n),
                                testing::EncodedDatum(image, n).SerializeAsString());
                  }
                  writer->Close();
                });
              }),
              0)
        << DataParameter::DB_Name(backend);
    EXPECT_FALSE(fs::exists(path)) << DataParameter::DB_Name(backend);
  }
}

}  // namespace
}  // namespace crema
#endif
