#include "data/lists/class_names.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/strings.h"
#include "format/prototxt.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

std::string LayerOfType(const std::string& type, const std::string& params) {
  return StrCat("layer { name: 'd' type: '", type, "' top: 'x' ", params, " }");
}

Names NamesOf(const std::string& text) { return ClassNames(ParseNet(text, "net").net); }

TEST(ClassNames, ClassFoldersOfImageData) {
  const test::TempDir temp;
  for (const char* folder : {"zebra", "ant", ".cache"}) fs::create_directory(temp.File(folder));
  temp.Write("notes.txt", "no class");
  EXPECT_EQ(
      NamesOf(LayerOfType("ImageData", StrCat("image_data_param { source: '", temp.path(), "' }"))),
      (Names{"ant", "zebra"}));
}

TEST(ClassNames, LabelsBesideAListAndInADataSet) {
  const test::TempDir temp;
  const std::string list = LayerOfType(
      "ImageData",
      StrCat("image_data_param { source: '", temp.Write("train.txt", "a.png 0"), "' }"));
  fs::create_directory(temp.File("train_lmdb"));
  const std::string records =
      LayerOfType("Data", StrCat("data_param { source: '", temp.File("train_lmdb"), "' }"));
  EXPECT_EQ(NamesOf(list + records), Names());
  KeepClassNames({"cat", "a dog"}, temp.File("train_lmdb"));
  EXPECT_EQ(NamesOf(list + records), (Names{"cat", "a dog"})) << "the first layer that has names";
  temp.Write("labels.txt", "one\r\n\r\ntwo\r\n\r\n");
  EXPECT_EQ(NamesOf(list + records), (Names{"one", "", "two"})) << "lines number the labels";
}

TEST(ClassNames, LabelMapsOfDetectors) {
  const test::TempDir temp;
  const std::string map = temp.Write("map.prototxt",
                                     "item { name: 'none' label: 0 display_name: 'background' }"
                                     "item { name: 'car' label: 2 }");
  const Names expected = {"background", "1", "car"};
  EXPECT_EQ(NamesOf(LayerOfType("AnnotatedData",
                                StrCat("annotated_data_param { label_map_file: '", map, "' }"))),
            expected);
  EXPECT_EQ(NamesOf(StrCat("layer { name: 'o' type: 'DetectionOutput' bottom: 'x' top: 'o' "
                           "detection_output_param { save_output_param { label_map_file: '",
                           map, "' } } }")),
            expected);
  EXPECT_EQ(
      NamesOf(LayerOfType("YoloDetectionOutput",
                          StrCat("yolo_detection_output_param { label_map_file: '", map, "' }"))),
      expected);
}

TEST(ClassNames, FilesThatCannotBeReadHaveNone) {
  const test::TempDir temp;
  EXPECT_EQ(
      NamesOf(LayerOfType("AnnotatedData", "annotated_data_param { label_map_file: 'nowhere' }")),
      Names());
  EXPECT_EQ(NamesOf(LayerOfType("Data", "data_param { source: 'nowhere' }")), Names());
  const std::string map = temp.Write("map.prototxt", "item { name: 'car' label: -7 }");
  EXPECT_EQ(NamesOf(LayerOfType("AnnotatedData",
                                StrCat("annotated_data_param { label_map_file: '", map, "' }"))),
            Names());
  KeepClassNames({"a"}, temp.Write("archive.tar", ""));
  EXPECT_FALSE(fs::exists(temp.File("labels.txt")));
}

}  // namespace
}  // namespace crema
