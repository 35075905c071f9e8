// Lists files of one kind below a folder.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace crema::tools {

// Return paths after `folder`, sorted, without those that begin with a dot. Links to folders are
// not followed. Throw kIoFailure. `extension` is in lower case, with the dot.
std::vector<std::string> FilesBelow(const std::string& folder, std::string_view extension);
std::vector<std::string> ImagesBelow(const std::string& folder);

// Returns the images below a folder by their path without extension. Throws kDataLoss for two of
// the same.
std::map<std::string, std::string> ImagesByStem(const std::string& folder);

std::string WithoutExtension(const std::string& path);
std::string WithSlash(const std::string& folder);

}  // namespace crema::tools
