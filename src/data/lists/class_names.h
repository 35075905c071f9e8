// Names of the classes of a data set.
#pragma once

#include <string>
#include <vector>

#include "crema.pb.h"

namespace crema {

// The file with the name of a class on each line: in the folder of a data set, beside a list of
// images, or in a run folder.
inline constexpr const char* kClassNamesFile = "labels.txt";

// Returns the names by label from the files of a net: the class folders of ImageData, the
// label map of a detector, labels.txt of the data set. The first layer that has names counts. Empty
// if none has, or if a file cannot be read: names are no part of training.
std::vector<std::string> ClassNames(const NetParameter& net);

// Returns the lines of labels.txt in a folder; empty if there is none.
std::vector<std::string> ClassNamesIn(const std::string& folder);

// Returns the names by label, at most 2^20; the number itself for a label without name.
std::vector<std::string> ClassNames(const LabelMap& map);

// Writes labels.txt to the folder of a data set. Does nothing without names, and for a data set
// that is a file. Throws kIoFailure.
void KeepClassNames(const std::vector<std::string>& names, const std::string& data_set);

}  // namespace crema
