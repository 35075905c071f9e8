#include "data/lists/class_names.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/error.h"
#include "core/strings.h"
#include "data/lists/image_list.h"
#include "format/data_file.h"
#include "format/file.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

constexpr int kMostClasses = 1 << 20;

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string SourceOf(const LayerParameter& layer) {
  if (layer.has_image_data_param()) return layer.image_data_param().source();
  return layer.has_data_param() ? layer.data_param().source() : "";
}

std::vector<std::string> NamesOf(const LayerParameter& layer) {
  std::string map = layer.detection_output_param().save_output_param().label_map_file();
  if (layer.type() == "AnnotatedData") map = layer.annotated_data_param().label_map_file();
  if (layer.type() == "YoloDetectionOutput") {
    map = layer.yolo_detection_output_param().label_map_file();
  }
  if (!map.empty()) return ClassNames(ReadLabelMap(map));
  const std::string source = SourceOf(layer);
  if (source.empty()) return {};
  if (!IsFolder(source)) return ClassNamesIn(fs::path(source).parent_path().string());
  return layer.type() == "ImageData" ? ClassFoldersIn(source) : ClassNamesIn(source);
}

}  // namespace

std::vector<std::string> ClassNamesIn(const std::string& folder) {
  const std::string path = (fs::path(folder) / kClassNamesFile).string();
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  std::vector<std::string> names = Split(ReadFile(path), '\n');
  for (std::string& name : names) {
    if (name.ends_with('\r')) name.pop_back();
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  return names;
}

std::vector<std::string> ClassNames(const LabelMap& map) {
  std::vector<std::string> names;
  for (const LabelMapItem& item : map.item()) {
    if (item.label() < 0 || item.label() >= kMostClasses) return {};
    const auto label = static_cast<size_t>(item.label());
    if (names.size() <= label) names.resize(label + 1);
    names[label] = item.has_display_name() ? item.display_name() : item.name();
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) names[i] = std::to_string(i);
  }
  return names;
}

void KeepClassNames(const std::vector<std::string>& names, const std::string& data_set) {
  if (names.empty() || !IsFolder(data_set)) return;
  WriteFileAtomically((fs::path(data_set) / kClassNamesFile).string(), Join(names, "\n") + "\n");
}

std::vector<std::string> ClassNames(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    try {
      std::vector<std::string> names = NamesOf(layer);
      if (!names.empty()) return names;
    } catch (const Error&) {
      continue;  // names are no part of training
    }
  }
  return {};
}

}  // namespace crema
