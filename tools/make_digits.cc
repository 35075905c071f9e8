// make_digits: draws a data set of handwritten-looking digits, so that training needs no download.
#include <gflags/gflags.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <opencv2/core.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/image/codecs_opencv.h"
#include "data/records/lmdb.h"
#include "format/file.h"
#include "make_digits/digit.h"
#include "make_digits/write.h"

DEFINE_int32(count, 10000, "[Run] number of digits, or of pictures with several digits, to draw");
DEFINE_uint64(seed, 1, "[Run] another seed, other digits; the same seed, the same digits");
DEFINE_string(png, "",
              "[Output FOLDER] also write the first digits to this folder, as <index>_<label>.png");
DEFINE_int32(png_count, 10, "[Output] number of digits that --png writes");
DEFINE_string(task, "classify",
              "[Run classify|detect|segment] a digit a picture; several, with boxes in the layout "
              "of PASCAL VOC; one or two large ones, with label maps");
DEFINE_string(layout, "lmdb",
              "[Output lmdb|folders] for --task=classify: an LMDB, or .png files in a folder for "
              "each class");
DEFINE_int32(side, 160, "[Run] detect, segment: width and height of the pictures");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema make_digits [flags] OUTPUT\n"
    "\n"
    "Draws a data set of digits. They are white on black, 28x28 pixels, in several fonts,\n"
    "warped and noisy, the same number of each class, and are written to the new LMDB OUTPUT, or\n"
    "as files. For detectors and segmentation it draws color pictures with several digits.\n"
    "\n"
    "Examples:\n"
    "crema make_digits --count=10000 --seed=1 digits_train_lmdb\n"
    "crema make_digits --count=1000 --layout=folders digits\n"
    "crema make_digits --task=detect --count=1000 digits_voc";

void WritePng(const cv::Mat& digit, const std::string& folder, int index, int label) {
  const std::string path = StrCat(folder, "/", index, "_", label, ".png");
  std::vector<uint8_t> file;
  if (!LoadedImageCodecs().Encode(".png", digit, &file, {})) {
    Fail(ErrorCode::kIoFailure, StrCat("the image '", path, "' cannot be encoded"));
  }
  WriteFileAtomically(path, {reinterpret_cast<const char*>(file.data()), file.size()});
}

void MakeFolder(const std::string& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    Fail(ErrorCode::kIoFailure,
         StrCat("cannot make the folder '", folder, "': ", failure.message()));
  }
}

void MakeRecords(const std::string& output) {
  if (!FLAGS_png.empty()) MakeFolder(FLAGS_png);
  LmdbWriter writer(output);
  Datum datum;
  datum.set_channels(1);
  datum.set_height(kDigitSide);
  datum.set_width(kDigitSide);
  std::string value;
  std::array<char, 16> key{};
  for (int i = 0; i < FLAGS_count; ++i) {
    const auto index = static_cast<uint64_t>(i);
    const int label = LabelOfDigit(FLAGS_seed, index);
    const cv::Mat digit = DrawDigit(FLAGS_seed, index, label);
    datum.set_data(digit.data, digit.total());
    datum.set_label(label);
    datum.SerializeToString(&value);
    std::snprintf(key.data(), key.size(), "%08d", i);
    writer.Put(key.data(), value);
    if (!FLAGS_png.empty() && i < FLAGS_png_count) WritePng(digit, FLAGS_png, i, label);
  }
  writer.Close();
}

void CheckOneOf(const char* flag, const std::string& value, const std::vector<std::string>& known) {
  for (const std::string& name : known) {
    if (value == name) return;
  }
  Fail(ErrorCode::kInvalidArgument, StrCat("--", flag, ": '", value, "' is not one of ",
                                           Join(known, ", "), DidYouMean(value, known)));
}

void CheckFlags() {
  if (FLAGS_count < 1 || FLAGS_count > 99999999) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--count is ", FLAGS_count, ", but must be 1 to 99999999"));
  }
  if (FLAGS_side < 64 || FLAGS_side > 4096) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--side is ", FLAGS_side, ", but must be 64 to 4096"));
  }
  CheckOneOf("task", FLAGS_task, {"classify", "detect", "segment"});
  CheckOneOf("layout", FLAGS_layout, {"lmdb", "folders"});
  const bool files = FLAGS_task != "classify" || FLAGS_layout == "folders";
  if (files && !FLAGS_png.empty()) {
    Fail(ErrorCode::kInvalidArgument, "--png is for an LMDB of digits; this output is files");
  }
  if (FLAGS_task != "classify" && FLAGS_layout == "folders") {
    Fail(ErrorCode::kInvalidArgument, "--layout=folders is for --task=classify");
  }
}

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("expected OUTPUT, got ", arguments.size(), " arguments; see --help"));
  }
  CheckFlags();
  cv::setNumThreads(1);  // several threads are slower for such small images
  const std::string& output = arguments[0];
  const DigitFiles files{
      .folder = output, .count = FLAGS_count, .seed = FLAGS_seed, .side = FLAGS_side};
  if (FLAGS_task == "detect") {
    WriteVocFolder(files);
  } else if (FLAGS_task == "segment") {
    WriteMaskFolder(files);
  } else if (FLAGS_layout == "folders") {
    WriteClassFolders(files);
  } else {
    MakeRecords(output);
  }
  std::cout << "Drew " << FLAGS_count << (FLAGS_task == "classify" ? " digits" : " pictures")
            << " to " << output << "\n";
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
