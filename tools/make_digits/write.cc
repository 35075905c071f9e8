#include "make_digits/write.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <opencv2/core.hpp>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/image/image.h"
#include "data/image/png.h"
#include "format/file.h"
#include "make_digits/digit.h"
#include "make_digits/scene.h"

namespace crema::tools {
namespace {

constexpr std::array<const char*, 10> kNames = {"zero", "one", "two",   "three", "four",
                                                "five", "six", "seven", "eight", "nine"};
constexpr int kQuality = 95;  // of JPEG files

// Makes `folder` and folders in it.
void MakeFolders(const std::string& folder, const std::vector<std::string>& names) {
  std::error_code error;
  if (std::filesystem::exists(folder, error)) {
    Fail(ErrorCode::kInvalidArgument, StrCat("'", folder, "' exists already; choose another path"));
  }
  for (const std::string& name : names) {
    std::filesystem::create_directories(StrCat(folder, "/", name), error);
    if (error) {
      Fail(ErrorCode::kIoFailure,
           StrCat("cannot make the folder '", folder, "/", name, "': ", error.message()));
    }
  }
}

std::string Numbered(int index) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%06d", index);
  return text.data();
}

// The picture as planes of bytes.
Image AsImage(const cv::Mat& mat) {
  const PackedImage packed{.channels = mat.channels(),
                           .height = mat.rows,
                           .width = mat.cols,
                           .pixels = {mat.data, mat.data + mat.total() * mat.elemSize()}};
  Image image;
  UnpackImage(packed, &image);
  return image;
}

void WriteJpeg(const cv::Mat& picture, const std::string& path) {
  WriteFileAtomically(path, EncodeImage(AsImage(picture), "jpg", kQuality));
}

std::string AnnotationOf(const Scene& scene, const std::string& name) {
  std::string text = StrCat("<annotation>\n  <filename>", name, ".jpg</filename>\n  <size><width>",
                            scene.picture.cols, "</width><height>", scene.picture.rows,
                            "</height><depth>3</depth></size>\n");
  for (const Scene::Object& object : scene.objects) {
    const cv::Rect& box = object.box;
    text += StrCat("  <object>\n    <name>", kNames[static_cast<size_t>(object.digit)],
                   "</name>\n    <bndbox><xmin>", box.x, "</xmin><ymin>", box.y, "</ymin><xmax>",
                   box.x + box.width, "</xmax><ymax>", box.y + box.height,
                   "</ymax></bndbox>\n  </object>\n");
  }
  return text + "</annotation>\n";
}

// A palette PNG, as those of PASCAL VOC are.
std::string LabelMapFile(const cv::Mat& labels) {
  Picture picture{.width = labels.cols,
                  .height = labels.rows,
                  .channels = 1,
                  .pixels = {labels.data, labels.data + labels.total()}};
  picture.palette.push_back({0, 0, 0});
  for (int digit = 0; digit < 10; ++digit) {
    const auto at = [&](int step) { return static_cast<uint8_t>(55 + (digit * step) % 201); };
    picture.palette.push_back({at(67), at(131), at(29)});
  }
  return EncodePng(picture);
}

}  // namespace

void WriteClassFolders(const DigitFiles& files) {
  std::vector<std::string> names;
  for (int digit = 0; digit < 10; ++digit) names.push_back(std::to_string(digit));
  MakeFolders(files.folder, names);
  for (int i = 0; i < files.count; ++i) {
    const auto index = static_cast<uint64_t>(i);
    const int label = LabelOfDigit(files.seed, index);
    const cv::Mat digit = DrawDigit(files.seed, index, label);
    const std::string path = StrCat(files.folder, "/", label, "/", Numbered(i), ".png");
    WriteFileAtomically(path, EncodeImage(AsImage(digit), "png", 0));
  }
}

void WriteVocFolder(const DigitFiles& files) {
  MakeFolders(files.folder, {"JPEGImages", "Annotations", "ImageSets/Main"});
  std::string list;
  for (int i = 0; i < files.count; ++i) {
    const Scene scene = DrawScene(files.seed, static_cast<uint64_t>(i), {.side = files.side});
    const std::string name = Numbered(i);
    WriteJpeg(scene.picture, StrCat(files.folder, "/JPEGImages/", name, ".jpg"));
    WriteFileAtomically(StrCat(files.folder, "/Annotations/", name, ".xml"),
                        AnnotationOf(scene, name));
    list += name + "\n";
  }
  WriteFileAtomically(files.folder + "/ImageSets/Main/trainval.txt", list);
}

void WriteMaskFolder(const DigitFiles& files) {
  MakeFolders(files.folder, {"images", "masks"});
  // Strokes have few pixels, so the digits are larger than those for boxes.
  const SceneStyle style{.side = files.side, .most_digits = 2, .least = 0.4, .most = 0.8};
  for (int i = 0; i < files.count; ++i) {
    const Scene scene = DrawScene(files.seed, static_cast<uint64_t>(i), style);
    const std::string name = Numbered(i);
    WriteJpeg(scene.picture, StrCat(files.folder, "/images/", name, ".jpg"));
    WriteFileAtomically(StrCat(files.folder, "/masks/", name, ".png"), LabelMapFile(scene.labels));
  }
  std::string names = "background\n";
  for (const char* name : kNames) names += StrCat(name, "\n");
  WriteFileAtomically(files.folder + "/labels.txt", names);
}

}  // namespace crema::tools
