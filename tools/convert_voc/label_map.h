// The numbers of classes.
#pragma once

#include <map>
#include <set>
#include <string>

#include "crema.pb.h"

namespace crema::tools {

// Of a LabelMap file in text form. Throws kInvalidArgument: not such a file, a name that comes
// twice, an item without name or label; and what ReadFile throws.
LabelMap ReadLabelMapFile(const std::string& path);

// SSD's labelmap_voc.prototxt: the twenty classes of VOC from 1 on, 0 being the background.
LabelMap VocLabelMap();

// The background and these names, from 1 on in their order.
LabelMap LabelMapOf(const std::set<std::string>& names);

// Requires: each name comes once.
std::map<std::string, int> LabelsByName(const LabelMap& map);

}  // namespace crema::tools
