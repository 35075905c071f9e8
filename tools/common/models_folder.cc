#include "common/models_folder.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "core/error.h"
#include "core/strings.h"

namespace crema::tools {

namespace fs = std::filesystem;

std::string ModelsFolder() {
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::array<fs::path, 3> places = {here / "../../share/crema/models", here / "../../models",
                                          fs::path(CREMA_SOURCE_DIR) / "models"};
  for (const fs::path& place : places) {
    if (fs::exists(place / "lenet" / "train_val.prototxt", ignored)) {
      return place.lexically_normal().string();
    }
  }
  Fail(ErrorCode::kNotFound, StrCat("the folder models of Crema is missing: looked for ",
                                    places[0].lexically_normal().string()));
}

std::string FetchedModelsFolder() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && data[0] == '/') return StrCat(data, "/crema/zoo");
  const char* home = std::getenv("HOME");
  if (home != nullptr && home[0] == '/') return StrCat(home, "/.local/share/crema/zoo");
  return "";
}

std::string ResolveZooFile(const std::string& value, const std::string& extension) {
  constexpr std::string_view kScheme = "zoo:";
  if (!value.starts_with(kScheme)) return value;
  const std::string name = value.substr(kScheme.size());
  const std::string file = StrCat(name, "/", name, extension);
  std::error_code ignored;
  const bool is_name = !name.empty() && name.find('/') == std::string::npos;
  const std::string fetched = FetchedModelsFolder();
  if (is_name && !fetched.empty() && fs::is_regular_file(StrCat(fetched, "/", file), ignored)) {
    return StrCat(fetched, "/", file);
  }
  const std::string shipped = StrCat(ModelsFolder(), "/", file);
  if (is_name && fs::is_regular_file(shipped, ignored)) return shipped;
  Fail(ErrorCode::kNotFound,
       StrCat("there is no file of the model '", name, "' for ", value, " (", file,
              "): `crema zoo list` lists the models, `crema zoo get ", name, "` fetches one"));
}

}  // namespace crema::tools
