// The models that Crema ships, and those that `zoo get` fetched.
#pragma once

#include <string>

namespace crema::tools {

// Returns models/ as installed, in the source tree around a build folder, or in that of the build.
// Throws kNotFound if there is none.
std::string ModelsFolder();

// Returns the folder of fetched models: $XDG_DATA_HOME/crema/zoo, by default
// ~/.local/share/crema/zoo; it may not exist. Empty if there is no home.
std::string FetchedModelsFolder();

// Returns the file of a model for the value zoo:NAME of a flag: NAME/NAME`extension` in the folder
// of fetched models, or else in ModelsFolder(). Returns other values unchanged. Throws kNotFound.
std::string ResolveZooFile(const std::string& value, const std::string& extension);

}  // namespace crema::tools
