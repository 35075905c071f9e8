#if defined(CREMA_HAVE_OPENCV) && defined(CREMA_HAVE_EXPAT)
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/lists/class_names.h"
#include "data/records/annotated_datum.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"
#include "tools/stopped.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

std::string Object(const std::string& name, const std::string& box,
                   const std::string& more = "<difficult>0</difficult>") {
  const std::vector<std::string> c = Split(box, ' ');
  return StrCat("<object>\n<name>", name, "</name>", more, "\n<bndbox><xmin>", c[0],
                "</xmin><ymin>", c[1], "</ymin><xmax>", c[2], "</xmax><ymax>", c[3],
                "</ymax></bndbox></object>\n");
}

std::string Annotated(int width, int height, const std::string& objects) {
  return StrCat("<annotation>\n<filename>x.jpg</filename>\n<size><width>", width,
                "</width><height>", height, "</height><depth>3</depth></size>\n", objects,
                "</annotation>\n");
}

AnnotatedDatum ParseAnnotated(const std::string& value) {
  AnnotatedDatum datum;
  EXPECT_TRUE(datum.ParseFromString(value));
  return datum;
}

// Two images of 40x20 in VOC2007; `Converted` runs the command.
class ConvertVoc : public ::testing::Test {
 protected:
  ConvertVoc() {
    for (const char* folder : {"Annotations", "JPEGImages", "ImageSets/Main"}) {
      fs::create_directories(temp_.File(StrCat("kit/VOC2007/", folder)));
    }
    AddImage("000005", Pattern(20, 40));
    AddImage("000007", Pattern(20, 40, 3, 9));
    Annotate("000005", Object("dog", "4 5 20 10") + Object("person", "1 1 40 20") +
                           Object("dog", "8 2 12 20", "<difficult>1</difficult>"));
    Annotate("000007", "");
    List("trainval", "000005\n000007\n");
  }

  void AddImage(const std::string& name, const Image& image) {
    temp_.Write(StrCat("kit/VOC2007/JPEGImages/", name, ".jpg"), EncodeImage(image, "jpg", 0));
  }
  void AddXml(const std::string& name, const std::string& xml) {
    temp_.Write(StrCat("kit/VOC2007/Annotations/", name, ".xml"), xml);
  }
  void Annotate(const std::string& name, const std::string& objects) {
    AddXml(name, Annotated(40, 20, objects));
  }
  void List(const std::string& set, const std::string& text) {
    temp_.Write(StrCat("kit/VOC2007/ImageSets/Main/", set, ".txt"), text);
  }

  ProcessResult Run(std::vector<std::string> flags, const std::string& output = "db") {
    flags.insert(flags.end(), {Folder(), temp_.File(output)});
    return RunTool("convert_boxes", flags);
  }
  Records Converted(const std::vector<std::string>& flags = {}) {
    fs::remove_all(temp_.File("db"));
    const ProcessResult result = Run(flags);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return ReadAll(temp_.File("db"));
  }
  // Expects this exit code, and these words in the message.
  void ExpectFailure(const std::vector<std::string>& flags, int exit_code,
                     const std::vector<std::string>& words) {
    const ProcessResult result = Run(flags, "failed");
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    for (const std::string& word : words) EXPECT_TRUE(Contains(result.err, word)) << result.err;
    fs::remove_all(temp_.File("failed"));
    fs::remove(temp_.File("failed.unfinished"));
  }
  std::string Folder() const { return temp_.File("kit/VOC2007"); }
  std::string Xml(const std::string& name) const {
    return StrCat(Folder(), "/Annotations/", name, ".xml");
  }

  TempDir temp_;
};

TEST_F(ConvertVoc, WritesWhatSsdWrites) {
  const Records records = Converted();
  EXPECT_EQ(Keys(records), (std::vector<std::string>{"00000000_VOC2007/JPEGImages/000005.jpg",
                                                     "00000001_VOC2007/JPEGImages/000007.jpg"}));
  AnnotatedDatum expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "datum { encoded: true label: -1 } type: BBOX\n"
      "annotation_group { group_label: 12\n"
      "  annotation { instance_id: 0\n"
      "    bbox { xmin: 0.1 ymin: 0.25 xmax: 0.5 ymax: 0.5 difficult: false } }\n"
      "  annotation { instance_id: 1\n"
      "    bbox { xmin: 0.2 ymin: 0.1 xmax: 0.3 ymax: 1 difficult: true } } }\n"
      "annotation_group { group_label: 15\n"
      "  annotation { instance_id: 0\n"
      "    bbox { xmin: 0.025 ymin: 0.05 xmax: 1 ymax: 1 difficult: false } } }",
      &expected));
  expected.mutable_datum()->set_data(temp_.Read("kit/VOC2007/JPEGImages/000005.jpg"));
  EXPECT_EQ(ParseAnnotated(records[0].second).DebugString(), expected.DebugString())
      << "pixels counted from 1 are divided as they are; the file is stored as it is";
  const AnnotatedDatum empty = ParseAnnotated(records[1].second);
  EXPECT_TRUE(empty.has_type());
  EXPECT_EQ(empty.annotation_group_size(), 0);
}

TEST_F(ConvertVoc, TheLayersReaderTakesThem) {
  const Records records = Converted({"--resize_height=10", "--resize_width=10"});
  AnnotatedDatumReader reader("db", ColorMode::kColor);
  const PixelView pixels = reader.Read(records[0].first, records[0].second);
  EXPECT_EQ(pixels.shape(), Shape({3, 10, 10}));
  ASSERT_EQ(reader.objects().size(), 3U);
  EXPECT_FLOAT_EQ(static_cast<float>(reader.objects()[0].box.xmax), 0.5F) << "of any size";
  const Records raw = Converted({"--noencoded", "--gray"});
  EXPECT_EQ(ParseAnnotated(raw[0].second).datum().channels(), 1);
  EXPECT_EQ(ParseAnnotated(raw[0].second).datum().data().size(), 800U);
}

TEST_F(ConvertVoc, TheSameRecordsWithAnyNumberOfThreads) {
  const Records records = Converted({"-j", "1"});
  EXPECT_EQ(Converted({"-j", "8"}), records);
}

TEST_F(ConvertVoc, SeveralYearsAndSets) {
  fs::copy(Folder(), temp_.File("kit/VOC2012"), fs::copy_options::recursive);
  List("train", "000007\n");
  List("val", "000005\n");
  temp_.Write("kit/VOC2012/ImageSets/Main/train.txt", "000005\n");
  temp_.Write("kit/VOC2012/ImageSets/Main/val.txt", "000007\n");
  const ProcessResult result = RunTool(
      "convert_boxes",
      {"--image_set=train,val", Folder() + "/", temp_.File("kit/VOC2012"), temp_.File("db")});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.out, "Wrote 4 images")) << result.out;
  EXPECT_EQ(
      Keys(ReadAll(temp_.File("db"))),
      (std::vector<std::string>{
          "00000000_VOC2007/JPEGImages/000007.jpg", "00000001_VOC2007/JPEGImages/000005.jpg",
          "00000002_VOC2012/JPEGImages/000005.jpg", "00000003_VOC2012/JPEGImages/000007.jpg"}));
  const ProcessResult shuffled =
      RunTool("convert_boxes", {"--shuffle", "--seed=3", "--image_set=train,val,trainval", Folder(),
                                temp_.File("kit/VOC2012"), temp_.File("shuffled")});
  ASSERT_EQ(shuffled.exit_code, 0) << shuffled.err;
  EXPECT_EQ(ReadAll(temp_.File("shuffled")).size(), 8U);
}

TEST_F(ConvertVoc, ListsOfOtherSystemsAndOfAClass) {
  const std::vector<std::string> both = Keys(Converted());
  for (const char* list : {"000005\r\n000007\r\n", "  000005  \n\n000007\t\n\n", "000005\n000007",
                           "000005  1\r\n000007  0\r\n000009 -1\r\n"}) {
    List("trainval", list);
    EXPECT_EQ(Keys(Converted()), both) << list;
  }
  List("trainval", "000005 -1\n");
  ExpectFailure({}, 3, {"trainval.txt", "names no images"});
}

TEST_F(ConvertVoc, ImagesOfOtherKinds) {
  fs::remove(temp_.File("kit/VOC2007/JPEGImages/000007.jpg"));
  temp_.Write("kit/VOC2007/JPEGImages/000007.png", Png(Pattern(20, 40)));
  const Records records = Converted();
  EXPECT_EQ(records[1].first, "00000001_VOC2007/JPEGImages/000007.png");
  EXPECT_TRUE(ParseAnnotated(records[1].second).datum().data().starts_with("\x89PNG"));
}

TEST_F(ConvertVoc, LabelMapsAreReadWrittenAndFound) {
  const std::string map = temp_.File("map.prototxt");
  Converted({"--write_labelmap=" + map});
  EXPECT_TRUE(temp_.Read("map.prototxt")
                  .starts_with("item {\n  name: \"none_of_the_above\"\n  label: 0\n"
                               "  display_name: \"background\"\n}\n"
                               "item {\n  name: \"aeroplane\"\n  label: 1\n"));
  EXPECT_EQ(ReadLabels(map).size(), 21U) << "as AnnotatedData's label_map_file";
  EXPECT_EQ(ClassNamesIn(temp_.File("db")).size(), 21U);
  EXPECT_EQ(ClassNamesIn(temp_.File("db"))[1], "aeroplane");

  temp_.Write("own.prototxt",
              "item { name: 'person' label: 7 } item { name: 'dog' label: 7 display_name: 'd' }");
  const AnnotatedDatum own =
      ParseAnnotated(Converted({"--labelmap=" + temp_.File("own.prototxt")})[0].second);
  ASSERT_EQ(own.annotation_group_size(), 1) << "two classes of one label";
  EXPECT_EQ(own.annotation_group(0).annotation(2).instance_id(), 2);

  Annotate("000007", Object("axolotl", "1 1 5 5"));
  const Records found = Converted({"--find_classes", "--write_labelmap=" + map});
  EXPECT_EQ(ParseAnnotated(found[1].second).annotation_group(0).group_label(), 1);
  EXPECT_TRUE(Contains(temp_.Read("map.prototxt"), "name: \"person\"\n  label: 3\n"));
}

TEST_F(ConvertVoc, RefusesBadLabelMaps) {
  const auto refused = [&](const std::string& text, const std::vector<std::string>& words) {
    ExpectFailure({"--labelmap=" + temp_.Write("own.prototxt", text)}, 2, words);
  };
  refused("item { name: 'dog' label: 1 } item { name: 'dog' label: 2 }",
          {"own.prototxt", "'dog' comes twice"});
  refused("item { name: 'dog' }", {"lacks its name or its label"});
  refused("", {"names no labels"});
  refused("itme { }", {"own.prototxt:1", "item"});
  ExpectFailure({"--labelmap=" + temp_.File("own.protoxt")}, 2, {"did you mean", "own.prototxt"});
  ExpectFailure({"--find_classes"}, 2, {"--write_labelmap"});
  ExpectFailure({"--find_classes", "--labelmap=x", "--write_labelmap=y"}, 2, {"contradict"});
}

TEST_F(ConvertVoc, UnknownClassesAreNeverSkipped) {
  Annotate("000007", "\n\n" + Object("tvmonitro", "1 1 5 5"));
  for (const auto& flags : {std::vector<std::string>{}, {"--on_bad=skip"}}) {
    ExpectFailure(flags, 2,
                  {Xml("000007") + ":6", "no class 'tvmonitro'", "did you mean 'tvmonitor'",
                   "--find_classes"});
  }
}

TEST_F(ConvertVoc, MissingFilesNameTheLineOfTheList) {
  fs::remove(Xml("000007"));
  ExpectFailure({}, 3,
                {Folder() + "/JPEGImages/000007.jpg' (line 2 of '", "has no annotation",
                 Xml("000007"), "--on_bad=skip"});
  Annotate("000007", "");
  fs::remove(temp_.File("kit/VOC2007/JPEGImages/000007.jpg"));
  ExpectFailure({}, 3, {"JPEGImages/000007.jpg' (line 2 of '", "trainval.txt"});
  const ProcessResult skipped = Run({"--on_bad=skip"});
  EXPECT_EQ(skipped.exit_code, 0);
  EXPECT_TRUE(Contains(skipped.out, "Wrote 1 images")) << skipped.out;
  EXPECT_TRUE(Contains(skipped.out, "skipped 1")) << skipped.out;
}

TEST_F(ConvertVoc, BrokenAnnotationsNameTheLine) {
  const auto refused = [&](const std::string& xml, const std::vector<std::string>& words) {
    AddXml("000007", xml);
    std::vector<std::string> all = words;
    all.push_back(Xml("000007"));
    ExpectFailure({}, 3, all);
  };
  refused("<annotation>\n<object>\n</annotation>",
          {":3:", "mismatched tag", "<object> from line 2"});
  refused("<annotation>\n<object>", {":2:", "the XML is broken"});
  refused("", {"the XML is broken: no element found"});
  refused("no xml", {":1:1"});
  refused("<html></html>", {"begins with <html>"});
  refused("<annotation>&boom;</annotation>", {"undefined entity"});
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "<a>";
  refused(deep, {"nested more than 64 deep"});
  refused("<annotation>\n<object><name>dog</name></object></annotation>",
          {":2:1", "<object> has no <bndbox>"});
  refused("<annotation><object>" + Object("dog", "1 1 2 2") + "</object></annotation>",
          {"<object> has no <name>"});
  refused(Annotated(40, 20, "<object><name>dog</name><bndbox>\n<xmin>1</xmin></bndbox></object>"),
          {"<bndbox> has no <ymin>"});
  refused(Annotated(40, 20, Object("dog", "1 1 x 2")), {":6:", "<xmax> is 'x', not a number"});
  refused(Annotated(40, 20, Object("dog", "1 nan 3 2")), {"<ymin> is 'nan', not a number"});
  refused(Annotated(-40, 20, ""), {":3:", "the width -40"});
  refused(std::string(17 << 20, ' '), {"too large for an annotation"});
}

TEST_F(ConvertVoc, BoxesThatCannotBe) {
  Annotate("000007", Object("dog", "20 5 10 10"));
  ExpectFailure({}, 3, {Xml("000007") + ":4", "20 5 10 10 of 'dog' is turned inside out", "40x20"});
  Annotate("000007", Object("dog", "1 1 2 2") + Object("cat", "41 5 50 10"));
  ExpectFailure({}, 3, {Xml("000007") + ":7", "of 'cat' is outside the image"});
  EXPECT_EQ(Run({"--on_bad=skip"}).exit_code, 0);
}

TEST_F(ConvertVoc, BoxesThatReachOutsideAreKeptWithAWarning) {
  Annotate("000007", Object("dog", "-4 5.5 44 10"));
  const ProcessResult result = Run({});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.err, Xml("000007") + ":4: the box -4 5.5 44 10 of 'dog' reaches"))
      << result.err;
  const AnnotatedDatum datum = ParseAnnotated(ReadAll(temp_.File("db"))[1].second);
  EXPECT_FLOAT_EQ(datum.annotation_group(0).annotation(0).bbox().xmax(), 1.1F);
  EXPECT_FLOAT_EQ(datum.annotation_group(0).annotation(0).bbox().ymin(), 0.275F);
}

TEST_F(ConvertVoc, ImagesOfAnotherSizeThanTheirAnnotation) {
  AddXml("000007", Annotated(80, 40, Object("dog", "8 4 40 20")));
  ExpectFailure({"--check_size"}, 3, {Xml("000007"), "is 80x40, but it is 40x20"});
  const ProcessResult result = Run({});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(Contains(result.err, "is 80x40, but it is 40x20; boxes are")) << result.err;
  const AnnotatedDatum datum = ParseAnnotated(ReadAll(temp_.File("db"))[1].second);
  EXPECT_FLOAT_EQ(datum.annotation_group(0).annotation(0).bbox().xmax(), 0.5F);

  AddXml("000007", "<annotation>" + Object("dog", "8 4 40 20") + "</annotation>");
  const ProcessResult unsized = Run({"--check_size"}, "unsized");
  EXPECT_EQ(unsized.exit_code, 0) << unsized.err;
  EXPECT_TRUE(Contains(unsized.err, "does not say the size of the image")) << unsized.err;
}

TEST_F(ConvertVoc, WrongFoldersFlagsAndBackends) {
  const auto run = [&](const std::vector<std::string>& arguments) {
    const ProcessResult result = RunTool("convert_boxes", arguments);
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  EXPECT_TRUE(
      Contains(run({temp_.File("kit"), temp_.File("db")}), "did you mean '" + Folder() + "'?"));
  EXPECT_TRUE(Contains(run({temp_.File("kit/VOC2070"), temp_.File("db")}), "no folder"));
  EXPECT_TRUE(Contains(run({Folder()}), "expected INPUT... DB_NAME"));
  EXPECT_TRUE(Contains(run({"--image_set=trainvla", Folder(), temp_.File("db")}), "did you mean"));
  EXPECT_TRUE(Contains(run({"--backend=tar", Folder(), temp_.File("db")}), "not boxes"));
  EXPECT_TRUE(Contains(run({"--backend=lmbd", Folder(), temp_.File("db")}), "'lmdb'"));
  EXPECT_TRUE(Contains(run({"--short_side=-1", Folder(), temp_.File("db")}), "--short_side"));
  EXPECT_FALSE(fs::exists(temp_.File("db")));
  EXPECT_TRUE(Contains(RunTool("convert_boxes", {"--help"}).out, "--find_classes"));
  Converted();
  EXPECT_TRUE(Contains(run({Folder(), temp_.File("db")}), "exists already"));
}

// These pipes have no writer, so reading one would block indefinitely.
TEST_F(ConvertVoc, PipesAreNoImagesAnnotationsAndLists) {
  for (const std::string name : {"JPEGImages/000007.jpg", "Annotations/000007.xml"}) {
    const std::string path = StrCat(Folder(), "/", name);
    const std::string file = temp_.Read("kit/VOC2007/" + name);
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    ExpectFailure({}, 3, {path, "is a pipe or a device", "--on_bad=skip"});
    fs::remove(path);
    temp_.Write("kit/VOC2007/" + name, file);
  }
  ASSERT_EQ(mkfifo(StrCat(Folder(), "/ImageSets/Main/test.txt").c_str(), 0600), 0);
  ExpectFailure({"--image_set=test"}, 3, {"test.txt", "is a pipe or a device"});
}

TEST_F(ConvertVoc, CtrlCLeavesADataSetThatGoesOn) {
  std::string list;
  for (int i = 0; i < 1040; ++i) list += i < 1000 ? "000005\n" : "slow\n";
  List("trainval", list);
  AddXml("slow", Annotated(1500, 1500, ""));
  AddImage("slow", SlowImage());
  const Records whole = Converted();
  const std::string db = temp_.File("db");
  const std::vector<std::string> command = {Bin("convert_boxes"), "-j", "1", Folder(), db};
  ASSERT_EQ(StopInTheMiddle(temp_, command, db, SIGINT, [&] { return HasCommitted(db); }), 130)
      << temp_.Read("stderr");
  EXPECT_TRUE(Contains(temp_.Read("stderr"), "--resume")) << temp_.Read("stderr");
  const size_t written = ReadAll(db).size();
  EXPECT_GE(written, 1000U);
  EXPECT_LT(written, 1040U);
  const ProcessResult other = Run({"--resume", "--gray"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(Contains(other.err, "gray: 1")) << other.err;
  ExpectGoesOn(command, db, whole);
}

}  // namespace
}  // namespace crema::test
#endif
