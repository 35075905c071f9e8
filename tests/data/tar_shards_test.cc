#include "data/records/tar_shards.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "crema.pb.h"
#include "data/expect_error.h"
#include "data/record_sets.h"
#include "data/records/datum.h"
#include "data/records/tar_archive.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using testing::ExpectError;
using TarFiles = std::vector<std::pair<std::string, std::string>>;

std::string Member(const std::string& name, const std::string& contents) {
  std::string member = TarHeader(name, contents.size()) + contents;
  member.resize((member.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  return member;
}

std::string Archive(const TarFiles& files) {
  std::string archive;
  for (const auto& [name, contents] : files) archive += Member(name, contents);
  return archive + TarEnd();
}

// "key=label:image " of each sample.
std::string Contents(const std::string& path) {
  const auto reader = OpenRecords(path);
  std::string text;
  for (uint64_t i = 0; i < reader->count(); ++i) {
    const KeyedRecord record = reader->Next();
    Datum datum;
    EXPECT_TRUE(datum.ParseFromString(std::string(record.value)));
    EXPECT_TRUE(datum.encoded());
    text += StrCat(record.key, "=", datum.has_label() ? std::to_string(datum.label()) : "none", ":",
                   datum.data(), " ");
  }
  return text;
}

TEST(TarNames, SamplesEndAtTheFirstDotOfTheBaseName) {
  EXPECT_EQ(SplitTarName("a.b/0001.seg.png").sample, "a.b/0001");
  EXPECT_EQ(SplitTarName("a.b/0001.seg.png").extension, "seg.png");
  EXPECT_EQ(SplitTarName("a/.hidden.jpg").sample, "");
  EXPECT_EQ(SplitTarName("a/README").sample, "");
  EXPECT_TRUE(IsImageExtension("JPEG"));
  EXPECT_FALSE(IsImageExtension("seg.png"));
  EXPECT_FALSE(IsImageExtension("cls"));
}

TEST(TarNames, PatternsStandForShards) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(ExpandBraces("a.tar"), (Paths{"a.tar"}));
  EXPECT_EQ(ExpandBraces("t-{008..011}.tar"),
            (Paths{"t-008.tar", "t-009.tar", "t-010.tar", "t-011.tar"}));
  EXPECT_EQ(ExpandBraces("{9..10}"), (Paths{"9", "10"}));
  EXPECT_EQ(ExpandBraces("{a,b}/{0..1}.tar"), (Paths{"a/0.tar", "a/1.tar", "b/0.tar", "b/1.tar"}));
  for (const char* bad : {"{0..", "{}", "{x}", "{0..x}", "{..}", "{1..2", "{0..99999999}",
                          "{0..999}{0..999}", "{5..4}", "{-1..4}"}) {
    ExpectError(ErrorCode::kInvalidArgument, bad, [&] { ExpandBraces(bad); });
  }
}

TEST(TarShards, SamplesAreGroupsOfFiles) {
  const TempDir temp;
  const std::string long_name = std::string(150, 'n') + "/" + std::string(90, 'm');
  temp.Write("set.tar", Archive({{"README", "nothing"},
                                 {"classes.txt", "cat dog"},
                                 {"./a/1.cls", "7\n"},
                                 {"./a/1.json", "{}"},
                                 {"./a/1.jpg", "first"},
                                 {"./a/._2.jpg", "of a Mac"},
                                 {"a/2.PNG", "second"},
                                 {"a/2.cls", " -3 "},
                                 {"a/2.seg.png", "mask"},
                                 {long_name + ".jpeg", std::string(1500, 'x')},
                                 {long_name + ".cls", "0"}}));
  EXPECT_EQ(Contents(temp.File("set.tar")),
            "./a/1=7:first a/2=-3:second " + long_name + "=0:" + std::string(1500, 'x') + " ");
}

TEST(TarShards, SourceIsAFileAFolderOrAPattern) {
  const TempDir temp;
  std::filesystem::create_directory(temp.File("set"));
  temp.Write("set/s-09.tar", Archive({{"a.jpg", "1"}, {"a.cls", "1"}}));
  temp.Write("set/s-10.tar", Archive({{"a.jpg", "2"}, {"a.cls", "2"}}));  // the same name again
  temp.Write("set/s-11.tar", Archive({{"b.jpg", "3"}, {"b.cls", "3"}}));
  temp.Write("set/notes.txt", "no shard");
  temp.Write("archive", temp.Read("set/s-11.tar"));
  EXPECT_EQ(Contents(temp.File("set")), "a=1:1 a=2:2 b=3:3 ");
  EXPECT_EQ(Contents(temp.File("set/s-{10..11}.tar")), "a=2:2 b=3:3 ");
  EXPECT_EQ(Contents(temp.File("set/s-10.tar")), "a=2:2 ");
  EXPECT_EQ(Contents(temp.File("archive")), "b=3:3 ");
  ExpectError(ErrorCode::kNotFound, "s-12.tar'",
              [&] { OpenRecords(temp.File("set/s-{11..12}.tar")); });
}

TEST(TarShards, LabelsAreForAllOrForNone) {
  const TempDir temp;
  temp.Write("none.tar", Archive({{"a.jpg", "1"}, {"b.jpg", "2"}}));
  EXPECT_EQ(Contents(temp.File("none.tar")), "a=none:1 b=none:2 ");
  EXPECT_FALSE(OpenRecords(temp.File("none.tar"))->labelled());
  temp.Write("some.tar", Archive({{"a.jpg", "1"}, {"a.cls", "1"}, {"b.jpg", "2"}}));
  ExpectError(ErrorCode::kDataLoss, "some.tar', byte 2048: the sample 'b' has no label",
              [&] { OpenRecords(temp.File("some.tar")); });
}

TEST(TarShards, ErrorsNameArchiveAndPlace) {
  const TempDir temp;
  const auto expect = [&](const std::string& bytes, const std::string& text) {
    const std::string path = temp.Write("bad.tar", bytes);
    ExpectError(ErrorCode::kDataLoss, "bad.tar'", [&] { OpenRecords(path); });
    ExpectError(ErrorCode::kDataLoss, text, [&] { OpenRecords(path); });
  };
  const std::string good = Archive({{"a.jpg", std::string(700, 'x')}, {"a.cls", "1"}});
  expect("", "byte 0: the archive is cut short");
  expect(good.substr(0, 100), "cut short");
  expect(good.substr(0, 600), "byte 0: the archive is cut short or damaged: a member of 700 bytes");
  expect(good.substr(0, 1536), "byte 1536: the archive is cut short: it ends without its end mark");
  expect(good.substr(0, 1600), "cut short");
  expect(std::string(2000, 'x'), "byte 0: this is no tar archive");
  std::string flipped = good;
  flipped[1540] = 'Z';
  expect(flipped, "byte 1536: the header of a member is damaged");
  expect(Archive({}), "holds no samples");
  expect(Archive({{"a.jpg", "1"}, {"a.png", "2"}}), "byte 1024: the sample 'a' has two images");
  expect(Archive({{"a.cls", "1"}}), "has a label and no image");
  expect("\x1F\x8B" + std::string(1000, 'x'), "decompress it");
}

TEST(TarShards, ALabelThatIsNoNumberIsAnErrorOfItsSample) {
  const TempDir temp;
  temp.Write("set.tar", Archive({{"a.jpg", "1"},
                                 {"a.cls", "cat"},
                                 {"b.jpg", "2"},
                                 {"b.cls", std::string(600, '1')},
                                 {"c.jpg", "3"},
                                 {"c.cls", "3"}}));
  const auto reader = OpenRecords(temp.File("set.tar"));
  for (const char* name : {"'a'", "'b'"}) {
    ExpectError(ErrorCode::kDataLoss, StrCat("the label (.cls) of ", name),
                [&] { reader->Next(); });
  }
  EXPECT_EQ(reader->Next().key, "c");
}

// Random changes of bits and bytes cause an error or other samples, but never a crash.
TEST(TarShards, DamageIsAnErrorOrOtherContents) {
  const TempDir temp;
  const std::string good = Archive({{"a.jpg", "1"},
                                    {"a.cls", "1"},
                                    {std::string(120, 'b') + ".jpg", std::string(600, 'x')},
                                    {std::string(120, 'b') + ".cls", "2"}});
  std::mt19937 random(1);
  int refused = 0;
  for (int run = 0; run < 500; ++run) {
    std::string bytes = good;
    for (uint32_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % bytes.size();
      if (random() % 8 == 0) {
        bytes.resize(at + 1);
      } else {
        bytes[at] = static_cast<char>(random());
      }
    }
    temp.Write("set.tar", bytes);
    try {
      const auto reader = OpenRecords(temp.File("set.tar"));
      for (uint64_t i = 0; i < reader->count(); ++i) reader->At(i);
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kDataLoss) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 150);
}

TEST(TarShards, AShardThatChangesWhileItIsReadIsAnError) {
  const TempDir temp;
  const std::string bytes = Archive({{"a.jpg", std::string(5000, 'x')}, {"b.jpg", "2"}});
  const std::string path = temp.Write("set.tar", bytes);
  const auto reader = OpenRecords(path);
  const auto later = reader->Clone();
  EXPECT_EQ(reader->Next().key, "a");
  std::filesystem::resize_file(path, 3000);
  ExpectError(ErrorCode::kDataLoss, "was changed since it was opened", [&] { reader->Next(); });
  ExpectError(ErrorCode::kDataLoss, "was changed since it was opened", [&] { later->At(0); });
}

TEST(TarShards, AShardThatIsReplacedGoesOnWhereItIsOpen) {
  const TempDir temp;
  const std::string path = temp.Write("set.tar", Archive({{"a.jpg", "1"}, {"b.jpg", "2"}}));
  const auto reader = OpenRecords(path);
  const auto later = reader->Clone();
  EXPECT_EQ(reader->Next().key, "a");
  temp.Write("new.tar", Archive({{"c.jpg", "3"}}));
  std::filesystem::rename(temp.File("new.tar"), path);
  EXPECT_EQ(reader->Next().key, "b");
  ExpectError(ErrorCode::kDataLoss, "was changed since it was opened", [&] { later->At(0); });
}

TEST(TarShards, ManyShardsNeedFewOpenFiles) {
  const TempDir temp;
  std::filesystem::create_directory(temp.File("set"));
  constexpr int kShards = 150;
  for (int n = 0; n < kShards; ++n) {
    temp.Write(StrCat("set/", testing::NumberedKey(n), ".tar"),
               Archive({{StrCat(n, ".jpg"), std::to_string(n)}}));
  }
  const auto reader = OpenRecords(temp.File("set"));
  for (const int n : {5, 149, 70, 5, 100}) {
    EXPECT_EQ(reader->At(static_cast<uint64_t>(n)).key, std::to_string(n));
  }
  for (int n = 0; n < 2 * kShards; ++n) {
    EXPECT_EQ(reader->Next().key, std::to_string(n % kShards));
  }
}

bool HasPython() {
  return test::RunProcess({"/usr/bin/env", "python3", "-c", "import tarfile"}).exit_code == 0;
}

TEST(TarShards, PythonsArchivesOfAllFormatsAreRead) {
  if (!HasPython()) GTEST_SKIP() << "needs python3";
  const TempDir temp;
  const std::string program = R"(
import io, sys, tarfile
for name, format in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT),
                     ("pax", tarfile.PAX_FORMAT)):
    with tarfile.open(name + ".tar", "w", format=format) as tar:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        link = tarfile.TarInfo("folder/link.jpg")
        link.type = tarfile.SYMTYPE
        link.linkname = "elsewhere.jpg"
        tar.addfile(link)
        deep = "d" * 120 + "/" + "e" * 20  # in ustar: prefix and name
        if name != "ustar":
            deep += "\u00e4" * 100
        for base, image, label in (("folder/1", b"one", b"1"), (deep, b"two" * 300, b"2\n")):
            for extension, contents in (("jpg", image), ("cls", label)):
                info = tarfile.TarInfo(base + "." + extension)
                info.size = len(contents)
                info.mtime = 1700000000.25  # pax: a record of its own
                tar.addfile(info, io.BytesIO(contents))
)";
  ASSERT_EQ(test::RunProcess({"/usr/bin/env", "python3", "-c", program}, temp.path()).exit_code, 0);
  std::string image;
  for (int i = 0; i < 300; ++i) image += "two";
  for (const char* name : {"ustar", "gnu", "pax"}) {
    std::string deep = std::string(120, 'd') + "/" + std::string(20, 'e');
    for (int i = 0; i < (std::string(name) == "ustar" ? 0 : 100); ++i) deep += "\xC3\xA4";
    EXPECT_EQ(Contents(temp.File(StrCat(name, ".tar"))),
              StrCat("folder/1=1:one ", deep, "=2:", image, " "))
        << name;
  }
}

TEST(TarWriter, PythonReadsWhatIsWritten) {
  if (!HasPython()) GTEST_SKIP() << "needs python3";
  const TempDir temp;
  const auto writer = CreateTarShards(temp.File("set.tar"));
  const std::string deep = std::string(200, 'd') + "/x";
  writer->Put("a", testing::EncodedDatum("\xFF\xD8\xFFone", 4).SerializeAsString());
  writer->Put(deep, testing::EncodedDatum("\x89PNGtwo", -5).SerializeAsString());
  writer->Close();
  const std::string program =
      "import tarfile\n"
      "for m in (t := tarfile.open('set.tar')): print(m.name, m.size, "
      "t.extractfile(m).read()[-3:])";
  const test::ProcessResult result =
      test::RunProcess({"/usr/bin/env", "python3", "-c", program}, temp.path());
  EXPECT_EQ(result.out, StrCat("a.jpg 6 b'one'\na.cls 1 b'4'\n", deep, ".png 7 b'two'\n", deep,
                               ".cls 2 b'-5'\n"))
      << result.err;
}

TEST(TarWriter, ShardsAreFilledUpToTheirSizeAndEqualRecordsMakeEqualShards) {
  const TempDir temp;
  for (const char* name : {"one", "two"}) {
    const auto writer = CreateTarShards(temp.File(name), 10000);
    for (int n = 0; n < 20; ++n) {
      writer->Put(testing::NumberedKey(n),
                  testing::EncodedDatum(testing::FakeJpeg(n), n).SerializeAsString());
    }
    writer->Close();
  }
  for (const char* shard : {"000000.tar", "000001.tar", "000004.tar"}) {
    EXPECT_EQ(temp.Read(StrCat("one/", shard)), temp.Read(StrCat("two/", shard)));
    EXPECT_GT(temp.Read(StrCat("one/", shard)).size(), 2000U);
    EXPECT_LE(temp.Read(StrCat("one/", shard)).size(), 12000U);
  }
  EXPECT_FALSE(std::filesystem::exists(temp.File("one/000005.tar")));
  const auto reader = OpenRecords(temp.File("one"));
  EXPECT_EQ(reader->count(), 20U);
  for (int n = 0; n < 20; ++n) EXPECT_EQ(reader->Next().key, testing::NumberedKey(n));
}

TEST(TarWriter, KeysBecomeNamesOfSamples) {
  const TempDir temp;
  const auto writer = CreateTarShards(temp.File("set.tar"));
  const std::string record = testing::EncodedDatum(testing::FakeJpeg(0), 1).SerializeAsString();
  writer->Put("0001_n01/img 1.JPEG", record);
  writer->Put("/../etc", record);
  Datum unlabelled = testing::EncodedDatum(testing::FakeJpeg(0), 1);
  ExpectError(ErrorCode::kInvalidArgument, "'__/etc', which was written already",
              [&] { writer->Put("../etc", record); });
  ExpectError(ErrorCode::kInvalidArgument, "is not a Datum", [&] { writer->Put("x", "\xFF"); });
  ExpectError(ErrorCode::kInvalidArgument, "no image file of a kind that is known",
              [&] { writer->Put("y", testing::EncodedDatum("text", 1).SerializeAsString()); });
  writer->Close();
  const auto reader = OpenRecords(temp.File("set.tar"));
  EXPECT_EQ(reader->Next().key, "0001_n01/img_1_JPEG");
  EXPECT_EQ(reader->Next().key, "__/etc");
}

#ifdef CREMA_HAVE_OPENCV
TEST(TarWriter, RawPixelsComeBackTheSame) {
  const TempDir temp;
  Datum gray = testing::GrayDatum(2, 3, 5);
  Datum color;
  color.set_channels(3);
  color.set_height(2);
  color.set_width(2);
  color.set_data("BbBbGgGgRrRr");
  color.set_label(1);
  const auto writer = CreateTarShards(temp.File("set.tar"));
  writer->Put("gray", gray.SerializeAsString());
  writer->Put("color", color.SerializeAsString());
  color.set_channels(2);
  color.set_data("BbBbGgGg");
  ExpectError(ErrorCode::kInvalidArgument, "2 channels of bytes",
              [&] { writer->Put("two", color.SerializeAsString()); });
  writer->Close();
  const auto reader = OpenRecords(temp.File("set.tar"));
  DatumReader decoder("set");
  for (const auto& [key, pixels] : TarFiles{{"gray", gray.data()}, {"color", "BbBbGgGgRrRr"}}) {
    const KeyedRecord record = reader->Next();
    const PixelView view = decoder.Read(record.key, record.value);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(view.bytes), pixels.size()), pixels);
    EXPECT_EQ(view.channels, key == "gray" ? 1 : 3);
  }
}
#endif

TEST(TarWriter, WhatIsNotClosedIsRemoved) {
  const TempDir temp;
  for (const char* name : {"set", "set.tar"}) {
    {
      const auto writer = CreateTarShards(temp.File(name), 1000);
      for (int n = 0; n < 5; ++n) {
        writer->Put(testing::NumberedKey(n),
                    testing::EncodedDatum(testing::FakeJpeg(n), n).SerializeAsString());
      }
    }
    EXPECT_FALSE(std::filesystem::exists(temp.File(name)));
  }
  temp.Write("here.tar", "x");
  ExpectError(ErrorCode::kInvalidArgument, "exists already",
              [&] { CreateTarShards(temp.File("here.tar")); });
  ExpectError(ErrorCode::kInvalidArgument, "exists already", [&] { CreateTarShards(temp.path()); });
  ExpectError(ErrorCode::kIoFailure, "cannot make the folder",
              [&] { CreateTarShards(temp.File("none/set")); });
}

}  // namespace
}  // namespace crema
