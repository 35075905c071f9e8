#include "support/browser.h"

#include <unistd.h>

#include <cstdlib>

#include "core/strings.h"

namespace crema::test {

std::string Chromium() {
  if (const char* named = std::getenv("CREMA_CHROMIUM"); named != nullptr) return named;
  const char* path = std::getenv("PATH");
  for (const std::string& folder : Split(path == nullptr ? "" : path, ':')) {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const std::string file = folder + "/" + name;
      if (access(file.c_str(), X_OK) == 0) return file;
    }
  }
  return {};
}

ProcessResult Browse(const std::string& place, const std::string& action, int width, int height,
                     const std::string& folder) {
  const std::string url = place.find("://") == std::string::npos ? "file://" + place : place;
  return RunProcess({Chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--user-data-dir=" + folder + "/profile", "--virtual-time-budget=5000",
                     StrCat("--window-size=", width, ",", height), action, url},
                    folder);
}

std::string BodyData(const std::string& document, const std::string& name) {
  const size_t body = document.find("<body");
  if (body == std::string::npos) return {};
  const std::string tag = document.substr(body, document.find('>', body) - body);
  const std::string mark = StrCat(" data-", name, "=\"");
  const size_t begin = tag.find(mark);
  if (begin == std::string::npos) return {};
  return tag.substr(begin + mark.size(), tag.find('"', begin + mark.size()) - begin - mark.size());
}

}  // namespace crema::test
