#if defined(CREMA_HAVE_OPENCV) && defined(CREMA_HAVE_HDF5)
#include "tools/convert_db.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/record_sets.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

Datum FileDatum(const Image& image, int label, const std::string& type = "png") {
  return testing::EncodedDatum(EncodeImage(image, type, 0), label);
}

Datum FloatDatum(std::vector<float> values, int label) {
  Datum datum;
  datum.set_channels(static_cast<int>(values.size()));
  datum.set_height(1);
  datum.set_width(1);
  datum.set_label(label);
  datum.mutable_float_data()->Assign(values.begin(), values.end());
  return datum;
}

TEST_F(ConvertDb, CopiesRecordsBetweenLmdbAndLevelDb) {
  if (!testing::CanWrite(DataParameter::LEVELDB, temp_)) GTEST_SKIP() << "built without LevelDB";
  AnnotatedDatum annotated;
  *annotated.mutable_datum() = FileDatum(Pattern(4, 6), 1);
  const Records records = {{std::string("\0\1", 2), "any bytes"},
                           {"a key.jpg", annotated.SerializeAsString()},
                           {"b", FloatDatum({1, 2}, 3).SerializeAsString()}};
  WriteKeyed("first", records);
  Convert("first", "second", {"--backend=leveldb"});
  EXPECT_TRUE(fs::exists(File("second/CURRENT")));
  EXPECT_EQ(ReadAll(File("second")), records);
  Convert("second", "third");
  EXPECT_TRUE(fs::exists(File("third/data.mdb")));
  EXPECT_EQ(ReadAll(File("third")), records);
}

TEST_F(ConvertDb, TheSameBatchesFromEachKind) {
  for (const int channels : {1, 3}) {
    const std::string db = StrCat("db", channels);
    WriteImages(db, channels);
    const auto expected = Batches(db);
    ASSERT_EQ(expected[0].size(), 15U * 24 * static_cast<size_t>(channels));
    std::string from = db;
    int step = 0;
    for (const char* kind :
         {"hdf5", "lmdb", "hdf5", "lmdb --bytes", "tar", "lmdb", "hdf5", "tar"}) {
      std::vector<std::string> flags = Split(StrCat("--backend=", kind), ' ');
      if (std::string(kind) == "tar" && step > 5) flags.push_back("--bytes");
      const std::string to = StrCat(db, "_", step++);
      Convert(from, to, flags);
      EXPECT_EQ(Batches(to), expected) << "step " << step << ", " << kind;
      from = to;
    }
  }
}

TEST_F(ConvertDb, TheSameRecordsWithAnyNumberOfThreads) {
  WriteImages("db");
  Convert("db", "one.tar", {"--backend=tar", "-j", "1"});
  Convert("db", "eight.tar", {"--backend=tar", "-j", "8"});
  EXPECT_EQ(temp_.Read("one.tar"), temp_.Read("eight.tar"));
}

TEST_F(ConvertDb, TarKeepsImageFilesAndMakesPngOfPixels) {
  const Datum jpeg = FileDatum(Pattern(4, 6), 2, "jpg");
  WriteSet(File("db"), std::vector<Datum>{jpeg, RawDatum(Pattern(4, 6), 5)});
  Convert("db", "out.tar", {"--backend=tar"});
  const std::string archive = temp_.Read("out.tar");
  for (const char* name : {"00000000.jpg", "00000000.cls", "00000001.png", "00000001.cls"}) {
    EXPECT_TRUE(Contains(archive, name)) << name;
  }
  Convert("out.tar", "back");
  const Records back = ReadAll(File("back"));
  EXPECT_EQ(Keys(back), (std::vector<std::string>{"00000000", "00000001"}));
  EXPECT_EQ(ParseDatum(back[0].second).data(), jpeg.data());
  EXPECT_EQ(ParseDatum(back[0].second).label(), 2);
  const Datum png = ParseDatum(back[1].second);
  EXPECT_TRUE(png.encoded());
  Image image;
  DecodeImage(png.data(), ColorMode::kAsStored, "it", &image);
  EXPECT_EQ(image.pixels, Pattern(4, 6).pixels) << "without loss";
}

TEST_F(ConvertDb, NamesInTarAreSafe) {
  const std::string value = FileDatum(Pattern(2, 2), 0).SerializeAsString();
  Records records;
  for (const std::string& key :
       {std::string("\0\0\0\1", 4), std::string("\0\0\0\2", 4), std::string("../../etc/x"),
        std::string("00000003_a b.jpg"), std::string("a.b"), std::string("a_b"),
        std::string("dir/name"), "long" + std::string(300, 'x')}) {
    records.emplace_back(key, value);
  }
  WriteKeyed("db", records);
  Convert("db", "out.tar", {"--backend=tar"});
  const std::string cut = "long" + std::string(187, 'x');
  EXPECT_EQ(
      Keys(ReadAll(File("out.tar"))),
      (std::vector<std::string>{"00000000", "00000001", "00000002___/__/etc/x", "00000003_a_b_jpg",
                                "00000004_a_b", "a_b", "dir/name", "00000007_" + cut}));
  Convert("out.tar", "back");
  EXPECT_EQ(Keys(ReadAll(File("back"))),
            (std::vector<std::string>{"00000000", "00000001", "00000002___/__/etc/x",
                                      "00000003_a_b_jpg", "00000004_a_b", "00000005_a_b",
                                      "00000006_dir/name", "00000007_" + cut}))
      << "in the order of the archive";
}

TEST_F(ConvertDb, Hdf5IsSplitIntoFiles) {
  WriteImages("db");
  Convert("db", "h5", {"--backend=hdf5", "--rows_per_file=3"});
  const std::string folder = File("h5");
  EXPECT_EQ(temp_.Read("h5/list.txt"),
            StrCat(folder, "/000000.h5\n", folder, "/000001.h5\n", folder, "/000002.h5\n"));
  EXPECT_EQ(Batches("h5"), Batches("db"));
  // The folder, its list and one file are inputs.
  Convert("h5", "folder");
  Convert("h5/list.txt", "list");
  Convert("h5/000001.h5", "file");
  EXPECT_EQ(ReadAll(File("folder")).size(), 7U);
  EXPECT_EQ(ReadAll(File("folder")), ReadAll(File("list")));
  EXPECT_EQ(ReadAll(File("file")).size(), 3U);
  EXPECT_EQ(ParseDatum(ReadAll(File("file"))[0].second).label(), 3);
}

TEST_F(ConvertDb, FloatsOfHdf5BecomeFloatDatums) {
  WriteHdf5("in.h5", {2, 3}, {0.5F, -1, 300, 1, 2, 3}, {4, -2});
  Convert("in.h5", "db");
  const Records records = ReadAll(File("db"));
  EXPECT_EQ(Keys(records), (std::vector<std::string>{"00000000", "00000001"}));
  EXPECT_EQ(ParseDatum(records[0].second).DebugString(),
            FloatDatum({0.5F, -1, 300}, 4).DebugString());
  EXPECT_EQ(ParseDatum(records[1].second).label(), -2);
  ExpectFailure("in.h5", {"--bytes"}, 3, {"in.h5 row 0: the value 0.5 is no byte"});
  ExpectFailure("nosuch", {"--bytes"}, 2, {"there is no data set '" + File("nosuch")});
  WriteHdf5("bytes.h5", {1, 2, 2}, {0, 255, 7, 8}, {});
  Convert("bytes.h5", "bytes", {"--bytes"});
  const Datum datum = ParseDatum(ReadAll(File("bytes"))[0].second);
  EXPECT_EQ(datum.data(), std::string("\0\xFF\7\10", 4));
  EXPECT_EQ(datum.channels(), 2);
  EXPECT_EQ(datum.height(), 2);
  EXPECT_EQ(datum.width(), 1);
  EXPECT_FALSE(datum.has_label());
}

TEST_F(ConvertDb, OtherNamesOfDatasets) {
  {
    Hdf5Appender file(File("in.h5"));
    const std::vector<float> values{1, 2};
    file.Append("images", {values.data(), Shape{2, 1}, DType::kF32});
    file.Append("classes", {values.data(), Shape{2}, DType::kF32});
  }
  ExpectFailure("in.h5", {}, 3, {"has no dataset 'data'", "'classes', 'images'"});
  Convert("in.h5", "db", {"--hdf5_data=images", "--hdf5_label=classes"});
  EXPECT_EQ(ParseDatum(ReadAll(File("db"))[1].second).label(), 2);
}

TEST_F(ConvertDb, RefusesRowsThatNoDatumHolds) {
  WriteHdf5("axes.h5", {1, 1, 1, 1, 1}, {1}, {});
  ExpectFailure("axes.h5", {}, 2, {"1x1x1x1", "a Datum has three axes"});
  WriteHdf5("labels.h5", {1, 1}, {1}, {1, 2}, 2);
  ExpectFailure("labels.h5", {}, 2, {"a Datum has one label"});
  WriteHdf5("half.h5", {2, 1}, {1, 2}, {1, 2.5});
  ExpectFailure("half.h5", {}, 3, {"half.h5 row 1: the label 2.5 is no whole number"});
}

TEST_F(ConvertDb, RefusesWhatTarAndHdf5CannotHold) {
  AnnotatedDatum annotated;
  *annotated.mutable_datum() = FileDatum(Pattern(4, 6), 1);
  WriteSet(File("boxes"), std::vector<AnnotatedDatum>{annotated});
  ExpectFailure("boxes", {"--backend=tar"}, 2,
                {"record \"00000000\" of '" + File("boxes"), "AnnotatedDatum", "not boxes"});
  ExpectFailure("boxes", {"--backend=hdf5"}, 2, {"AnnotatedDatum", "rows of HDF5"});

  WriteSet(File("floats"), std::vector<Datum>{FloatDatum({1, 2, 3}, 0)});
  ExpectFailure("floats", {"--backend=tar"}, 2,
                {"record '00000000'", "floats, of which no image file can be made"});
  WriteSet(File("two"), std::vector<Datum>{RawDatum(Pattern(2, 2, 2), 0)});
  ExpectFailure("two", {"--backend=tar"}, 2, {"2 channels of bytes"});

  WriteSet(File("sizes"),
           std::vector<Datum>{RawDatum(Pattern(4, 6), 0), RawDatum(Pattern(4, 7), 0)});
  ExpectFailure("sizes", {"--backend=hdf5"}, 2, {"'00000001' is 3x4x7", "3x4x6", "resize"});
  Datum unlabelled = RawDatum(Pattern(4, 6), 0);
  unlabelled.clear_label();
  WriteSet(File("labels"), std::vector<Datum>{RawDatum(Pattern(4, 6), 0), unlabelled});
  ExpectFailure("labels", {"--backend=hdf5"}, 2, {"'00000001' has no label"});
  WriteSet(File("large"), std::vector<Datum>{RawDatum(Pattern(4, 6), (1 << 24) + 1)});
  ExpectFailure("large", {"--backend=hdf5"}, 2, {"16777217", "no float can hold"});

  WriteKeyed("junk", {{"a", "no datum"}});
  for (const char* kind : {"--backend=tar", "--backend=hdf5"}) {
    ExpectFailure("junk", {kind}, 3, {"record \"a\"", "is not a Datum"});
  }
  WriteSet(File("cut"),
           std::vector<Datum>{testing::EncodedDatum(Png(Pattern(9, 9)).substr(0, 60), 0)});
  ExpectFailure("cut", {"--backend=hdf5"}, 3, {"record \"00000000\""});
}

TEST_F(ConvertDb, FloatsGoIntoTarAsBytes) {
  WriteHdf5("in.h5", {1, 3, 1, 1}, {1, 2, 3}, {4});
  ExpectFailure("in.h5", {"--backend=tar"}, 2, {"in.h5' holds floats", "--bytes", "0 to 255"});
  Convert("in.h5", "out.tar", {"--backend=tar", "--bytes"});
  EXPECT_EQ(ReadAll(File("out.tar")).size(), 1U);
}

// The good records of a set whose second is damaged, in every format.
TEST_F(ConvertDb, BrokenRecordsAreErrorsOrSkipped) {
  const Datum good = FileDatum(Pattern(4, 6), 1);
  const Datum cut = testing::EncodedDatum(Png(Pattern(9, 9)).substr(0, 60), 0);
  WriteKeyed("db", {{"a", good.SerializeAsString()},
                    {"b", cut.SerializeAsString()},
                    {"c", "no datum"},
                    {"d", RawDatum(Pattern(4, 6), 2).SerializeAsString()}});
  ExpectFailure("db", {"--backend=hdf5"}, 3, {"record \"b\"", "--on_bad=skip"});
  ExpectFailure("db", {"--on_bad=ignore"}, 2, {"--on_bad", "'ignore' is not error or skip"});
  for (const std::string kind : {"hdf5", "tar", "lmdb"}) {
    const ProcessResult result = Run("db", kind, {"--on_bad=skip", "--backend=" + kind});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(Contains(result.out, "Wrote 2 records to " + File(kind) + "; skipped 2"))
        << result.out;
    for (const char* key : {"record \"b\"", "record \"c\""}) {
      EXPECT_TRUE(Contains(result.err, key)) << result.err;
    }
  }
  EXPECT_EQ(Keys(ReadAll(File("lmdb"))), (std::vector<std::string>{"a", "d"}));
  EXPECT_EQ(Keys(ReadAll(File("tar"))), (std::vector<std::string>{"a", "d"}));
  Convert("hdf5", "back");
  EXPECT_EQ(ParseDatum(ReadAll(File("back"))[1].second).label(), 2);

  WriteKeyed("junk", {{"a", "no datum"}});
  ExpectFailure("junk", {"--on_bad=skip"}, 3, {"none of the 1 records can be used"});
}

TEST_F(ConvertDb, BrokenImplementationsAndSamplesAreErrorsOrSkipped) {
  WriteHdf5("in.h5", {3, 1}, {1, 0.5F, 3}, {4, 5, 6});
  ExpectFailure("in.h5", {"--bytes"}, 3, {"in.h5 row 1", "--on_bad=skip"});
  Convert("in.h5", "rows", {"--bytes", "--on_bad=skip"});
  EXPECT_EQ(Keys(ReadAll(File("rows"))), (std::vector<std::string>{"00000000", "00000002"}));

  WriteImages("db");
  Convert("db", "in.tar", {"--backend=tar"});
  std::string archive = temp_.Read("in.tar");
  constexpr size_t kHeader = 512;
  archive[archive.find("00000003.cls") + kHeader] = 'x';  // its label
  temp_.Write("in.tar", archive);
  ExpectFailure("in.tar", {}, 3, {"the label (.cls) of '00000003'", "--on_bad=skip"});
  Convert("in.tar", "samples", {"--on_bad=skip"});
  const Records records = ReadAll(File("samples"));
  EXPECT_EQ(records.size(), 6U);
  EXPECT_EQ(records[3].first, "00000004");
}

// Boxes in tar are not damage, but an unsupported request.
TEST_F(ConvertDb, WhatAKindCannotHoldIsNeverSkipped) {
  AnnotatedDatum annotated;
  *annotated.mutable_datum() = FileDatum(Pattern(4, 6), 1);
  WriteSet(File("boxes"), std::vector<AnnotatedDatum>{annotated});
  ExpectFailure("boxes", {"--backend=tar", "--on_bad=skip"}, 2, {"not boxes"});
  Convert("boxes", "copy", {"--on_bad=skip"});
  EXPECT_EQ(ReadAll(File("copy")), ReadAll(File("boxes")));
}

// Messages of commands that read records.
TEST_F(ConvertDb, OthersSayWhatToDoWithHdf5) {
  WriteImages("db");
  Convert("db", "h5", {"--backend=hdf5"});
  for (const char* tool : {"check_data", "compute_image_mean"}) {
    for (const char* path : {"h5", "h5/list.txt", "h5/000000.h5"}) {
      const ProcessResult result = RunTool(tool, {File(path)});
      EXPECT_EQ(result.exit_code, 3);
      EXPECT_TRUE(Contains(result.err, StrCat("'", File(path), "' is HDF5"))) << result.err;
      EXPECT_TRUE(Contains(result.err, StrCat("`convert_db ", File(path), " OUTPUT`")))
          << result.err;
    }
  }
  fs::remove(File("h5/list.txt"));
  const ProcessResult result = RunTool("check_data", {File("h5")});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(Contains(result.err, "holds HDF5 files")) << result.err;
  EXPECT_TRUE(Contains(result.err, "`convert_db LIST OUTPUT`")) << result.err;
}

TEST_F(ConvertDb, WrongArguments) {
  WriteImages("db");
  ExpectFailure("db", {"--backend=hfd5"}, 2, {"did you mean 'hdf5'"});
  ExpectFailure("db", {"--bytes"}, 2, {"--bytes is about the floats of HDF5"});
  ExpectFailure("bd", {}, 2, {"there is no data set"});
  temp_.Write("text", "something else");
  ExpectFailure("text", {}, 3, {"no tar archive"});
  temp_.Write("list", File("gone.h5"));
  ExpectFailure("list", {}, 2, {"gone.h5"});
  const ProcessResult blank = Run("db", "with blank", {"--backend=hdf5"});
  EXPECT_EQ(blank.exit_code, 2);
  EXPECT_TRUE(Contains(blank.err, "has a blank")) << blank.err;
  EXPECT_EQ(RunTool("convert_db", {File("db")}).exit_code, 2);
  EXPECT_TRUE(Contains(RunTool("convert_db", {"--help"}).out, "--rows_per_file"));
  for (const char* kind : {"lmdb", "tar", "hdf5"}) {
    const ProcessResult result = Run("db", "db", {StrCat("--backend=", kind)});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(Contains(result.err, "exists already")) << result.err;
  }
}

}  // namespace
}  // namespace crema::test
#endif
