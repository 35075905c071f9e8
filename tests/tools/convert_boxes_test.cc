// convert_boxes with the annotations of COCO and YOLO.
#if defined(CREMA_HAVE_OPENCV) && defined(CREMA_HAVE_EXPAT)
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "support/temp_dir.h"
#include "tools/data_set.h"

namespace crema::test {
namespace {

namespace fs = std::filesystem;

// Pictures of 40x20: 0.png has a dog at 4 5 20 10, which is difficult in COCO, and a cat at 10 0 30
// 20; 1.png has nothing.
class ConvertBoxes : public ::testing::Test {
 protected:
  ConvertBoxes() {
    for (const char* folder :
         {"coco/annotations", "coco/pictures", "yolo/images/train", "yolo/labels/train"}) {
      fs::create_directories(temp_.File(folder));
    }
    for (int i = 0; i < 2; ++i) {
      for (const char* folder : {"coco/pictures/", "yolo/images/train/"}) {
        temp_.Write(StrCat(folder, i, ".png"), Png(Pattern(20, 40, 3, i)));
      }
    }
    temp_.Write(kCoco, Coco());
    temp_.Write("yolo/data.yaml", "names: [cat, dog]\ntrain: images/train\n");
    temp_.Write(kLabels, "1 0.3 0.375 0.4 0.25\n0 0.5 0.5 0.5 1\n");
  }

  static std::string Coco(const std::string& more = "", const std::string& dog = "dog") {
    return StrCat(R"({"images": [{"id": 7, "file_name": "0.png", "width": 40, "height": 20},
                                 {"id": 8, "file_name": "1.png", "width": 40, "height": 20}],
                      "annotations": [
                        {"image_id": 7, "category_id": 18, "bbox": [4, 5, 16, 5], "iscrowd": 1},
                        {"image_id": 7, "category_id": 3, "bbox": [10, 0, 20, 20]})",
                  more, R"(], "categories": [{"id": 18, "name": ")", dog,
                  R"("}, {"id": 3, "name": "cat"}]})");
  }

  ProcessResult Run(std::vector<std::string> arguments) {
    fs::remove_all(temp_.File("db"));
    fs::remove(temp_.File("db.unfinished"));
    arguments.emplace_back("db");
    return RunTool("convert_boxes", arguments, temp_.path());
  }
  void ExpectFailure(const std::vector<std::string>& arguments, int exit_code,
                     const std::string& message) {
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_TRUE(Contains(result.err, message)) << result.err;
  }
  // Label, corners and "hard" for each box, after the key of its record.
  std::string Converted(const std::vector<std::string>& arguments) {
    const ProcessResult result = Run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::string text;
    for (const auto& [key, value] : ReadAll(temp_.File("db"))) {
      AnnotatedDatum record;
      EXPECT_TRUE(record.ParseFromString(value));
      EXPECT_TRUE(record.datum().encoded()) << "the file as it is";
      text += key + "\n";
      for (const AnnotationGroup& group : record.annotation_group()) {
        for (const Annotation& one : group.annotation()) {
          const NormalizedBBox& box = one.bbox();
          text += StrCat(group.group_label(), ": ", box.xmin(), " ", box.ymin(), " ", box.xmax(),
                         " ", box.ymax(), box.difficult() ? " hard\n" : "\n");
        }
      }
    }
    return text;
  }

  static constexpr const char* kCoco = "coco/annotations/instances_train.json";
  static constexpr const char* kLabels = "yolo/labels/train/0.txt";
  test::TempDir temp_;
};

TEST_F(ConvertBoxes, CocoAndYoloBecomeAnnotatedRecords) {
  EXPECT_EQ(Converted({kCoco}),
            "00000000_0.png\n2: 0.1 0.25 0.5 0.5 hard\n1: 0.25 0 0.75 1\n00000001_1.png\n");
  EXPECT_EQ(temp_.Read("db/labels.txt"), "background\ncat\ndog\n");
  EXPECT_EQ(Converted({"yolo/images/train"}),
            "00000000_0.png\n2: 0.1 0.25 0.5 0.5\n1: 0.25 0 0.75 1\n00000001_1.png\n");
  for (const char* input : {"yolo/data.yaml", "yolo"}) {
    EXPECT_EQ(Converted({input}),
              "00000000_0.png\n2: 0.1 0.25 0.5 0.5\n1: 0.25 0 0.75 1\n00000001_1.png\n");
  }
}

// The folders and lists of a data.yaml, as ultralytics reads them.
TEST_F(ConvertBoxes, ADataYamlNamesItsPictures) {
  fs::create_directories(temp_.File("yolo/lists"));
  temp_.Write("yolo/lists/val.txt", "./../images/train/1.png\n\nyolo/images/train/0.png\nnote\n");
  const std::string names =
      "names: {0: 'it''s #1', # the first\r\n  1: \"dog\"}\r\nother: {a: [1, {b: c}], d: e}\n"
      "download: |\n  train: x\n";
  const std::string file = "conf/data.yml";
  fs::create_directories(temp_.File("conf"));
  const std::string boxes = "2: 0.1 0.25 0.5 0.5\n1: 0.25 0 0.75 1\n";
  temp_.Write(file, "path: ../yolo\ntrain: ../images\nval: [lists/val.txt]\n" + names);
  EXPECT_EQ(Converted({file}), "00000000_0.png\n" + boxes + "00000001_1.png\n");
  EXPECT_EQ(temp_.Read("db/labels.txt"), "background\nit's #1\ndog\n");
  EXPECT_EQ(Converted({"--image_set=val", file}), "00000000_1.png\n00000001_0.png\n" + boxes);
  EXPECT_TRUE(Contains(Converted({"--image_set=train,val", file}), "00000003_0.png\n" + boxes));
  temp_.Write(file, "path: yolo\nval:\n- lists/val.txt\n- images/train  # all\n" + names);
  EXPECT_TRUE(Contains(Converted({"--image_set=val", file}), "00000003_1.png\n"));
}

TEST_F(ConvertBoxes, MistakesInADataYamlNameTheirLine) {
  const auto expect = [&](const std::string& text, const std::string& message) {
    SCOPED_TRACE(text);
    temp_.Write("yolo/data.yaml", text);
    ExpectFailure({"yolo/data.yaml"}, 3, "yolo/data.yaml" + message);
  };
  expect("names: [cat, dog]\nval: images\n",
         ": does not say where the pictures are: it has no `train:`");
  expect("names: [cat, dog]\ntrain:\nval: images\n", ": does not say where the pictures are");
  expect("train: images/train\n", ": has no names of classes");
  expect("names: [cat, dog]\ntrain: images/trian\n",
         ":2:1: there is no folder of pictures, or list of their names, 'yolo/images/trian'");
  expect("path: there\nnames: [cat, dog]\ntrain: images\n",
         ":1:1: path: there is no folder 'there', from here or from this file");
  expect("nc: 3\nnames: [cat, dog]\ntrain: images\n", ":1:1: nc is 3, but names has 2 classes");
  expect("names: [cat, dog\ntrain: images\n", ":1:1: the list has no ']' at its end");
  expect("names: [cat, 'dog]\ntrain: images\n", ":1:1: the value in ' has no end");
  expect("names:\n  0: cat\n  dog: 1\ntrain: images\n", ":1:1: names: 'dog' is no number");
  expect("names\n", ":1:1: is no line `key: value` of YAML");
  temp_.Write("yolo/all.txt", "images/train/0.png\nimages/train/9.png\n");
  temp_.Write("yolo/data.yaml", "names: [cat, dog]\ntrain: all.txt\n");
  ExpectFailure({"yolo/data.yaml"}, 3,
                "yolo/all.txt:2:1: there is no picture 'yolo/images/train/9");
}

TEST_F(ConvertBoxes, KeypointsByteOrderMarksAndTruthValuesAreUnderstood) {
  const std::string boxes = "2: 0.1 0.25 0.5 0.5\n1: 0.25 0 0.75 1\n";
  temp_.Write("yolo/data.yaml", "\xEF\xBB\xBFnames: [cat, dog]\nkpt_shape: [2, 2]  # x y\n");
  temp_.Write(kLabels,
              "\xEF\xBB\xBF"
              "1 0.3 0.375 0.4 0.25 0.9 0.9 0.8 0.8\n0 0.5 0.5 0.5 1 0 0 0 0\n");
  EXPECT_TRUE(Contains(Converted({"yolo/images/train"}), boxes));
  temp_.Write(kLabels, "1 0.3 0.375 0.4 0.25\n");
  ExpectFailure({"yolo/images/train"}, 3, "0.txt:1:1: has 5 numbers; with this kpt_shape");
  temp_.Write("yolo/data.yaml", "names: [cat, dog]\nkpt_shape: [17]\n");
  ExpectFailure({"yolo/images/train"}, 3, "data.yaml:2:1: kpt_shape is [points, ");
  std::string coco = "\xEF\xBB\xBF" + Coco();
  const size_t crowd = coco.find("\"iscrowd\": 1");
  temp_.Write(kCoco, coco.replace(crowd, 12, "\"iscrowd\": true"));
  EXPECT_TRUE(Contains(Converted({kCoco}), "2: 0.1 0.25 0.5 0.5 hard\n"));
  temp_.Write(kCoco, coco.replace(crowd, 15, "\"iscrowd\": false"));
  EXPECT_TRUE(Contains(Converted({kCoco}), boxes));
}

TEST_F(ConvertBoxes, ALabelMapGivesOtherLabels) {
  temp_.Write("map",
              "item { name: 'none' label: 0 } item { name: 'dog' label: 7 } "
              "item { name: 'cat' label: 9 }");
  EXPECT_TRUE(Contains(Converted({"--labelmap=map", kCoco}), "\n7: 0.1 0.25 0.5 0.5 hard\n9: "));
  EXPECT_TRUE(Contains(Converted({"--labelmap=map", "yolo/images/train"}), "\n7: 0.1 0.25"));
  Converted({"--find_classes", "--write_labelmap=found", kCoco});
  EXPECT_TRUE(Contains(temp_.Read("found"), "name: \"dog\"\n  label: 2"));
  temp_.Write("map", "item { name: 'cat' label: 1 }");
  ExpectFailure({"--labelmap=map", kCoco}, 2, "the label map has no class 'dog'");
}

TEST_F(ConvertBoxes, SeveralInputsHaveTheSameClasses) {
  temp_.Write("coco/annotations/more.json", Coco());
  EXPECT_TRUE(Contains(Converted({kCoco, "coco/annotations/more.json"}), "00000003_1.png\n"));
  temp_.Write("coco/annotations/more.json", Coco("", "wolf"));
  ExpectFailure({kCoco, "coco/annotations/more.json"}, 2, "has other classes than");
  temp_.Write("coco/annotations/more.json", Coco("", "cat"));
  ExpectFailure({"coco/annotations/more.json"}, 2, "two classes have the name 'cat'");
}

TEST_F(ConvertBoxes, MistakesNameTheirPlace) {
  temp_.Write(kCoco, "{\"images\": [");
  ExpectFailure({kCoco}, 3, "instances_train.json: is no annotation file of COCO");
  temp_.Write(kCoco, Coco(R"(,{"image_id": 7, "category_id": 4, "bbox": [1, 1, 2, 2]})"));
  ExpectFailure({kCoco}, 3, "annotation 2 is of image 7 and category 4");
  temp_.Write(kLabels, "2 0.5 0.5 0.1 0.1\n");
  ExpectFailure({"yolo/images/train"}, 3, "0.txt:1:1: class 2 has no name: the names are cat, dog");
  temp_.Write(kLabels, "1 0.5 0.5\n");
  ExpectFailure({"yolo/images/train"}, 3, "0.txt:1:1: has 3 numbers");
  ExpectFailure({"missing.json"}, 2, "missing.json");
  temp_.Write(kLabels, "");
  ExpectFailure({"--image_set=train", "yolo/images/train"}, 2, "--image_set is for PASCAL VOC");
}

TEST_F(ConvertBoxes, PicturesThatCannotBeReadAreRefusedOrSkipped) {
  temp_.Write("coco/pictures/1.png", "no picture");
  ExpectFailure({kCoco}, 3, "coco/pictures/1.png'");
  fs::remove(temp_.File("coco/pictures/1.png"));
  ExpectFailure({kCoco}, 3, "--on_bad=skip");
  EXPECT_EQ(Converted({"--on_bad=skip", kCoco}),
            "00000000_0.png\n2: 0.1 0.25 0.5 0.5 hard\n1: 0.25 0 0.75 1\n");
  fs::remove_all(temp_.File("coco/pictures"));
  ExpectFailure({kCoco}, 2, "its picture '0.png' is not in the folder of the file");
}

}  // namespace
}  // namespace crema::test
#endif
