#include "layers/detection/detection_files.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/data_file.h"
#include "format/file.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

bool IsWholeNumber(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string TwoDecimals(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.2f", value);
  return text;
}

std::string WholePixels(const Box& box) {
  return StrCat(static_cast<int64_t>(box.xmin), " ", static_cast<int64_t>(box.ymin), " ",
                static_cast<int64_t>(box.xmax), " ", static_cast<int64_t>(box.ymax));
}

}  // namespace

bool WantsDetectionFiles(const SaveOutputParameter& param) {
  return !param.output_directory().empty() && !param.label_map_file().empty() &&
         !param.name_size_file().empty();
}

DetectionFiles::DetectionFiles(const SaveOutputParameter& param, int64_t background)
    : param_(param), background_(background), images_(ReadImageSizes(param.name_size_file())) {
  const LabelMap map = ReadLabelMap(param.label_map_file());
  for (const LabelMapItem& item : map.item()) labels_[item.label()] = item.name();
  images_per_file_ = param.has_num_test_image() ? param.num_test_image() : images_.size();
  if (images_per_file_ == 0 || images_per_file_ > images_.size()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("num_test_image is ", images_per_file_, ", but ", param.name_size_file(), " names ",
                images_.size(), " images"));
  }
}

void DetectionFiles::Add(const std::vector<Detection>& detections) {
  const ImageSize& image = images_[next_image_];
  const ResizeParameter* resize = param_.has_resize_param() ? &param_.resize_param() : nullptr;
  for (const Detection& d : detections) {
    const Box pixels = ToPixels(d.box, image, resize);
    // Values that are not finite fit neither whole pixels nor JSON. Infinite corners are already
    // clipped.
    if (!std::isfinite(d.score) || !std::isfinite(pixels.width() + pixels.height())) {
      Fail(ErrorCode::kDataLoss,
           StrCat("a detection of image '", image.name, "' has score ", d.score, " and the box (",
                  d.box.xmin, ", ", d.box.ymin, ", ", d.box.xmax, ", ", d.box.ymax,
                  "), which cannot be written: it must be made of numbers"));
    }
    rows_.push_back({next_image_, d.label, d.score, pixels});
  }
  if (++next_image_ < images_per_file_) return;
  Write();
  rows_.clear();
  next_image_ = 0;
}

const std::string& DetectionFiles::LabelName(int64_t label) const {
  const auto found = labels_.find(label);
  if (found != labels_.end()) return found->second;
  Fail(ErrorCode::kInvalidArgument, StrCat("no item has label ", label),
       {.file = param_.label_map_file()});
}

std::string DetectionFiles::Path(const std::string& name) const {
  return (fs::path(param_.output_directory()) / (param_.output_name_prefix() + name)).string();
}

void DetectionFiles::Write() const {
  std::error_code error;
  fs::create_directories(param_.output_directory(), error);
  if (error) {
    Fail(ErrorCode::kIoFailure, StrCat("the folder cannot be made: ", error.message()),
         {.file = param_.output_directory()});
  }
  if (param_.output_format() == "VOC") {
    WriteVoc();
  } else if (param_.output_format() == "COCO") {
    WriteCoco();
  } else {
    WriteIlsvrc();
  }
}

// Writes one file per class, even for classes without detections.
void DetectionFiles::WriteVoc() const {
  for (const auto& [label, name] : labels_) {
    if (label == background_) continue;
    std::string text;
    for (const Row& row : rows_) {
      if (row.label != label) continue;
      text += StrCat(images_[row.image].name, " ", row.score, " ", WholePixels(row.pixels), "\n");
    }
    WriteFileAtomically(Path(name + ".txt"), text);
  }
}

void DetectionFiles::WriteIlsvrc() const {
  std::string text;
  for (const Row& row : rows_) {
    text += StrCat(images_[row.image].name, " ", row.label, " ", row.score, " ",
                   WholePixels(row.pixels), "\n");
  }
  WriteFileAtomically(Path(".txt"), text);
}

// Names of images and categories are written as numbers if possible, as COCO requires.
void DetectionFiles::WriteCoco() const {
  std::string text;
  for (const Row& row : rows_) {
    const std::string& image = images_[row.image].name;
    const std::string& category = LabelName(row.label);
    text += StrCat(
        text.empty() ? "[\n" : ",\n",
        "{\"image_id\": ", IsWholeNumber(image) ? image : Quoted(image),
        ", \"category_id\": ", IsWholeNumber(category) ? category : std::to_string(row.label),
        ", \"bbox\": [", TwoDecimals(row.pixels.xmin), ", ", TwoDecimals(row.pixels.ymin), ", ",
        TwoDecimals(row.pixels.width()), ", ", TwoDecimals(row.pixels.height()),
        "], \"score\": ", row.score, "}");
  }
  WriteFileAtomically(Path(".json"), text.empty() ? "[]\n" : text + "\n]\n");
}

}  // namespace crema
