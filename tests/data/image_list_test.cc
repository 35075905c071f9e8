#include "data/lists/image_list.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/strings.h"
#include "data/expect_error.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::TempDir;
using testing::ExpectError;

std::vector<double> LabelsOf(const ImageList& list, size_t entry) {
  std::vector<double> labels;
  for (size_t i = 0; i < list.label_count(); ++i) labels.push_back(list.Label(entry, i));
  return labels;
}

void Touch(const TempDir& temp, const std::string& name) {
  std::filesystem::create_directories(std::filesystem::path(temp.File(name)).parent_path());
  temp.Write(name, "");
}

TEST(ImageList, SeveralLabelsAreTheLastNumbersOfALine) {
  TempDir temp;
  const ImageList list(temp.Write("list", "a b.jpg 0.5 -2\nc 3.png  1e3   7 \n"), "r/", 2);
  ASSERT_EQ(list.entries().size(), 2u);
  EXPECT_EQ(list.entries()[0].path, "r/a b.jpg");
  EXPECT_EQ(LabelsOf(list, 0), (std::vector<double>{0.5, -2}));
  EXPECT_EQ(list.entries()[1].path, "r/c 3.png");
  EXPECT_EQ(LabelsOf(list, 1), (std::vector<double>{1000, 7}));
}

TEST(ImageList, OneLabelMayBeAFractionWhenItIsAskedFor) {
  TempDir temp;
  const std::string path = temp.Write("list", "a.jpg 0.25\n");
  EXPECT_EQ(LabelsOf(ImageList(path, "", 1), 0), (std::vector<double>{0.25}));
  ExpectError(ErrorCode::kDataLoss,
              "list:1:1: the label '0.25' after 'a.jpg' is not a whole number of 32 bits (the "
              "layer ImageData takes any number with image_data_param.label_count: 1)",
              [&] { ImageList(path, ""); });
}

TEST(ImageList, LinesWithTooFewOrBrokenLabelsAreNamed) {
  TempDir temp;
  const auto expect = [&](const std::string& text, const std::string& message) {
    const std::string path = temp.Write("list", text);
    ExpectError(ErrorCode::kDataLoss, message, [&] { ImageList(path, "", 2); });
  };
  expect("a.jpg 1 2\nb.jpg 3\n", "list:2:1: 'b.jpg 3' is not `path label label`");
  expect("b.jpg\n", "there are not 2 labels in it");
  expect("a.jpg 1 x\n", "list:1:1: the label 'x' after 'a.jpg' is not a number");
  expect("a.jpg nan 1\n", "the label 'nan'");
  expect("", "lists no images: write `path label label`");
}

TEST(ImageListCsv, HeadingsQuotesAndSpacesAreRead) {
  TempDir temp;
  const ImageList list(temp.Write("list.CSV",
                                  "\xEF\xBB\xBFpath, label\r\n"
                                  "a.png,3\r\n\r\n"
                                  "\"b, \"\"two\"\".png\" , 4\n"
                                  "  c d.png  ,-1"),
                       "root/");
  ASSERT_EQ(list.entries().size(), 3u);
  EXPECT_EQ(list.entries()[0].path, "root/a.png");
  EXPECT_EQ(list.entries()[0].label, 3);
  EXPECT_EQ(list.entries()[0].line, 2u);
  EXPECT_EQ(list.entries()[1].path, "root/b, \"two\".png");
  EXPECT_EQ(list.entries()[1].label, 4);
  EXPECT_EQ(list.entries()[2].path, "root/c d.png");
  EXPECT_EQ(list.entries()[2].line, 5u);
}

TEST(ImageListCsv, AHeadingIsNotNeededAndSeveralLabelsAreRead) {
  TempDir temp;
  const ImageList list(temp.Write("list.csv", "a.png,0.5,1\nb.png,\"2\",-3.5\n"), "", 2);
  ASSERT_EQ(list.entries().size(), 2u);
  EXPECT_EQ(LabelsOf(list, 0), (std::vector<double>{0.5, 1}));
  EXPECT_EQ(LabelsOf(list, 1), (std::vector<double>{2, -3.5}));
}

TEST(ImageListCsv, ErrorsNameFileAndLine) {
  TempDir temp;
  const auto expect = [&](const std::string& text, const std::string& message) {
    const std::string path = temp.Write("list.csv", text);
    ExpectError(ErrorCode::kDataLoss, message, [&] { ImageList(path, ""); });
  };
  expect("", "list.csv: lists no images: write `path,label`");
  expect("path,label\n", "lists no images");
  expect("path,label\na.png\n", "list.csv:2:1: there are 1 field in 'a.png', but a path and 1");
  expect("a.png,1,2\n", "there are 3 fields in");
  expect("a.png,cat\n", "list.csv:1:1: the label 'cat' after 'a.png'");  // no heading
  expect("path,label\nx,label\n", "list.csv:2:1: the label 'label'");
  expect("\"a.png,1\n", "the quotes of '\"a.png,1' do not fit");
  expect("\"a\".png,1\n", "do not fit");
}

TEST(ImageListFolder, ClassesAreLabelledByTheOrderOfTheirBytes) {
  TempDir temp;
  for (const char* name : {"b/2.JPG", "b/1.png", "b/deep/0.jpeg", "a/x.bmp", "Z/y.tiff",
                           ".hidden/z.png", "b/.z.png", "b/notes.txt", "readme.md"}) {
    Touch(temp, name);
  }
  const ImageList list(temp.path(), "");
  EXPECT_EQ(list.classes(), (std::vector<std::string>{"Z", "a", "b"}));
  std::vector<std::string> paths;
  std::vector<int> labels;
  for (const ImageList::Entry& entry : list.entries()) {
    paths.push_back(entry.path);
    labels.push_back(entry.label);
  }
  EXPECT_EQ(paths, (std::vector<std::string>{temp.File("Z/y.tiff"), temp.File("a/x.bmp"),
                                             temp.File("b/1.png"), temp.File("b/2.JPG"),
                                             temp.File("b/deep/0.jpeg")}));
  EXPECT_EQ(labels, (std::vector<int>{0, 1, 2, 2, 2}));
  EXPECT_EQ(list.Name(list.entries()[0]), "'" + temp.File("Z/y.tiff") + "'");
}

TEST(ImageListFolder, EmptyOnesAreErrorsThatSaySo) {
  TempDir temp;
  const auto expect = [&](ErrorCode code, const std::string& message, const std::string& root = "",
                          size_t labels = 0) {
    ExpectError(code, message, [&] { ImageList(temp.path(), root, labels); });
  };
  expect(ErrorCode::kDataLoss,
         "the folder '" + temp.path() + "' is empty: it should hold a folder");
  Touch(temp, "a.png");
  expect(ErrorCode::kDataLoss, "is full of images");
  std::filesystem::create_directory(temp.File("cats"));
  Touch(temp, "cats/text.txt");
  expect(ErrorCode::kDataLoss, "the folder '" + temp.File("cats") + "' of class 0 holds no images");
  expect(ErrorCode::kInvalidArgument, "give its whole path, and no root folder", "x/");
  expect(ErrorCode::kInvalidArgument, "label_count is 2", "", 2);
}

}  // namespace
}  // namespace crema
