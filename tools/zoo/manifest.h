// zoo.json, the list of the models of a zoo.
#pragma once

#include <string>

#include "zoo.pb.h"

namespace crema::tools {

inline constexpr const char* kManifestFile = "zoo.json";

// Parses the manifest. Throws kDataLoss, naming `origin`, if it is no manifest, and if it has
// names, paths, sizes or sums that cannot be: each path is that of a file in the folder of its
// model.
ZooManifest ParseManifest(const std::string& json, const std::string& origin);

// Throws kNotFound, with the nearest name, if the zoo has no such model.
const ZooManifest::Model& FindModel(const ZooManifest& manifest, const std::string& name);

// Returns the size of all files, in bytes.
int64_t BytesOf(const ZooManifest::Model& model);

// Returns nothing if the file has the size and the sum of its entry; else what is wrong.
std::string WrongIn(const ZooManifest::File& entry, const std::string& path);

}  // namespace crema::tools
