// Maps class names to labels.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "crema.pb.h"

namespace crema::tools {

// Reads a LabelMap file in text form. Throws kInvalidArgument: another format, a duplicate name, an
// item without name or label; and what ReadFile throws.
LabelMap ReadLabelMapFile(const std::string& path);

// Returns SSD's labelmap_voc.prototxt: the twenty classes of VOC from 1 on, 0 is the background.
LabelMap VocLabelMap();

// Returns a map of the background and these names, numbered from 1 on. Throws kInvalidArgument for
// two equal names.
LabelMap LabelMapOf(const std::vector<std::string>& names);

// Requires: unique names.
std::map<std::string, int> LabelsByName(const LabelMap& map);

}  // namespace crema::tools
