#include "boxes/label_map.h"

#include <algorithm>
#include <array>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/data_file.h"

namespace crema::tools {
namespace {

void AddItem(const std::string& name, const std::string& display_name, LabelMap* map) {
  const int label = map->item_size();
  LabelMapItem* item = map->add_item();
  item->set_name(name);
  item->set_label(label);
  item->set_display_name(display_name);
}

LabelMap OnlyBackground() {
  LabelMap map;
  AddItem("none_of_the_above", "background", &map);
  return map;
}

}  // namespace

LabelMap ReadLabelMapFile(const std::string& path) {
  LabelMap map = ReadLabelMap(path);
  std::set<std::string> names;
  for (const LabelMapItem& item : map.item()) {
    if (!item.has_name() || !item.has_label()) {
      Fail(ErrorCode::kInvalidArgument, "an item lacks its name or its label", {.file = path});
    }
    if (!names.insert(item.name()).second) {
      Fail(ErrorCode::kInvalidArgument, StrCat("the class '", item.name(), "' comes twice"),
           {.file = path});
    }
  }
  if (names.empty()) {
    Fail(ErrorCode::kInvalidArgument, "names no labels: write item { name: ... label: ... }",
         {.file = path});
  }
  return map;
}

LabelMap VocLabelMap() {
  constexpr std::array kNames = {"aeroplane",   "bicycle", "bird",  "boat",      "bottle",
                                 "bus",         "car",     "cat",   "chair",     "cow",
                                 "diningtable", "dog",     "horse", "motorbike", "person",
                                 "pottedplant", "sheep",   "sofa",  "train",     "tvmonitor"};
  LabelMap map = OnlyBackground();
  for (const char* name : kNames) AddItem(name, name, &map);
  return map;
}

LabelMap LabelMapOf(const std::vector<std::string>& names) {
  LabelMap map = OnlyBackground();
  for (const std::string& name : names) {
    const auto same = [&](const LabelMapItem& item) { return item.name() == name; };
    if (std::any_of(map.item().begin(), map.item().end(), same)) {
      Fail(ErrorCode::kInvalidArgument, StrCat("two classes have the name '", name,
                                               "' ('none_of_the_above' is the background)"));
    }
    AddItem(name, name, &map);
  }
  return map;
}

std::map<std::string, int> LabelsByName(const LabelMap& map) {
  std::map<std::string, int> labels;
  for (const LabelMapItem& item : map.item()) labels.emplace(item.name(), item.label());
  return labels;
}

}  // namespace crema::tools
