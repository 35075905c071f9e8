// zoo: lists, fetches, verifies and trains models that have weights.
#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/action.h"
#include "common/models_folder.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/log.h"
#include "core/printable.h"
#include "core/strings.h"
#include "format/file.h"
#include "zoo/download.h"
#include "zoo/manifest.h"
#include "zoo/part_file.h"
#include "zoo/signature.h"

DEFINE_string(zoo, "",
              "[Input FOLDER|URL] the zoo: a folder or an http(s) address with zoo.json; default: "
              "$CREMA_ZOO, or else the models that were installed with Crema");
DEFINE_string(
    key, "",
    "[Input KEY|FILE.pub] the public key of minisign that signed zoo.json: without a good "
    "signature nothing is used; default: $CREMA_ZOO_KEY");
DEFINE_string(o, "",
              "[Output FOLDER @get] the folder for the models; default: ~/.local/share/crema/zoo, "
              "where --weights=zoo:NAME finds them");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUsage =
    "crema zoo list [--zoo=FOLDER|URL]\n"
    "crema zoo get NAME... [--zoo=FOLDER|URL] [-o FOLDER]\n"
    "crema zoo verify [NAME...] [--zoo=FOLDER]\n"
    "crema zoo train NAME\n"
    "\n"
    "Models with weights. get copies or downloads the files of models, and verifies their sizes,\n"
    "SHA-256 sums and, with --key, the signature of the list, before they get their names.\n"
    "A download that was interrupted continues. train runs the recipe of a model, train.sh, in\n"
    "the current folder. See docs/zoo.md.\n"
    "\n"
    "Exit codes: 0 success; 2 wrong usage, no such model or file; 3 a file is damaged, or cannot\n"
    "be read or written; verify: or is missing.\n"
    "\n"
    "Examples:\n"
    "crema zoo list\n"
    "crema zoo get lenet -o models\n"
    "crema zoo get resnet20 --zoo=https://example.org/zoo --key=zoo.pub\n"
    "crema zoo verify";

using Words = std::vector<std::string>;

constexpr size_t kMostManifestBytes = size_t{16} << 20;

// Returns the value of the flag, or else of the variable. Throws kInvalidArgument for an empty one:
// a script whose variable is not set must not get an unsigned list.
std::string FlagOrVariable(const char* flag, const char* variable) {
  const auto info = gflags::GetCommandLineFlagInfoOrDie(flag);
  const char* value = info.is_default ? std::getenv(variable) : info.current_value.c_str();
  if (value == nullptr) return "";
  if (*value != '\0') return value;
  Fail(ErrorCode::kInvalidArgument, StrCat(info.is_default ? variable : StrCat("--", flag),
                                           " is empty: name one, or leave it out"));
}

std::string KeyFrom(const std::string& key) {
  constexpr size_t kLength = 56;
  return key.size() == kLength && key.starts_with("RW") ? key : ReadFile(key);
}

// The place of a zoo, and its list of models.
class Zoo {
 public:
  Zoo() : place_(FlagOrVariable("zoo", "CREMA_ZOO")) {
    if (place_.empty()) place_ = ModelsFolder();
    while (place_.size() > 1 && place_.ends_with('/')) place_.pop_back();
    const std::string manifest = TextOf(kManifestFile);
    if (std::string key = FlagOrVariable("key", "CREMA_ZOO_KEY"); !key.empty()) {
      key = KeyFrom(key);
      const std::string file = StrCat(kManifestFile, ".minisig");
      const std::string comment = VerifySignature(manifest, TextOf(file), key, PathOf(file));
      std::printf("signed: %s\n", Printable(comment).c_str());
    }
    manifest_ = ParseManifest(manifest, PathOf(kManifestFile));
  }

  const ZooManifest& manifest() const { return manifest_; }
  bool is_remote() const { return IsUrl(place_); }
  std::string PathOf(const std::string& file) const { return StrCat(place_, "/", file); }

  // Writes the file, of which `to` may have a beginning.
  void Fetch(const ZooManifest::File& file, PartFile* to) const {
    if (is_remote())
      return DownloadFile(PathOf(file.path()), static_cast<uint64_t>(file.bytes()), to);
    to->Clear();
    to->Append(ReadFile(PathOf(file.path())));
  }

 private:
  std::string TextOf(const std::string& file) const {
    return is_remote() ? DownloadText(PathOf(file), kMostManifestBytes) : ReadFile(PathOf(file));
  }

  std::string place_;
  ZooManifest manifest_;
};

std::string MegabytesOf(const ZooManifest::Model& model) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f MB", static_cast<double>(BytesOf(model)) / 1e6);
  return text;
}

int RunList(const Words&) {
  const Zoo zoo;
  size_t width = 4;
  for (const ZooManifest::Model& model : zoo.manifest().models()) {
    width = std::max(width, model.name().size());
  }
  for (const ZooManifest::Model& model : zoo.manifest().models()) {
    std::printf(
        "%-*s %9s  %s%s\n", static_cast<int>(width), model.name().c_str(),
        MegabytesOf(model).c_str(), Printable(model.summary()).c_str(),
        model.license().empty() ? "" : StrCat(" (", Printable(model.license()), ")").c_str());
  }
  return 0;
}

// Returns false if the file was there already.
bool GetFile(const Zoo& zoo, const ZooManifest::File& file, const std::string& folder) {
  const std::string path = StrCat(folder, "/", file.path());
  if (WrongIn(file, path).empty()) return false;
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) Fail(ErrorCode::kIoFailure, error.message(), {.file = path});
  PartFile part(path + ".part");
  if (WrongIn(file, path).empty()) {  // another process has fetched it meanwhile
    part.Remove();
    return false;
  }
  bool had_beginning = part.size() > 0;
  for (;;) {
    zoo.Fetch(file, &part);
    const std::string wrong = WrongIn(file, part.path());
    if (wrong.empty()) break;
    if (!std::exchange(had_beginning, false)) {
      part.Remove();
      Fail(ErrorCode::kDataLoss, StrCat(wrong, "; it was removed"),
           {.file = zoo.PathOf(file.path())});
    }
    part.Clear();  // the beginning may be of another file
  }
  part.Become(path);
  return true;
}

int RunGet(const Words& names) {
  const Zoo zoo;
  const std::string folder = FLAGS_o.empty() ? FetchedModelsFolder() : FLAGS_o;
  if (folder.empty()) Fail(ErrorCode::kInvalidArgument, "HOME is not set: give a folder with -o");
  for (const std::string& name : names) FindModel(zoo.manifest(), name);
  for (const std::string& name : names) {
    int fetched = 0;
    const ZooManifest::Model& model = FindModel(zoo.manifest(), name);
    for (const ZooManifest::File& file : model.files()) fetched += GetFile(zoo, file, folder);
    std::printf("%s: %d of %d files fetched, %s in %s/%s\n", name.c_str(), fetched,
                model.files_size(), MegabytesOf(model).c_str(), folder.c_str(), name.c_str());
  }
  return 0;
}

int RunVerify(const Words& names) {
  const Zoo zoo;
  if (zoo.is_remote()) {
    Fail(ErrorCode::kInvalidArgument, "verify reads a folder; get verifies what it downloads");
  }
  for (const std::string& name : names) FindModel(zoo.manifest(), name);
  std::vector<Problem> problems;
  for (const ZooManifest::Model& model : zoo.manifest().models()) {
    if (!names.empty() && std::ranges::find(names, model.name()) == names.end()) continue;
    const size_t before = problems.size();
    for (const ZooManifest::File& file : model.files()) {
      const std::string path = zoo.PathOf(file.path());
      const std::string wrong = WrongIn(file, path);
      if (!wrong.empty()) problems.push_back({ErrorCode::kDataLoss, {.file = path}, wrong});
    }
    if (problems.size() == before) std::printf("%s: good\n", model.name().c_str());
  }
  std::fflush(stdout);
  if (!problems.empty()) throw Error(std::move(problems));
  return 0;
}

// Replaces this process by the recipe.
int RunTrain(const Words& names) {
  const std::string recipe = StrCat(ModelsFolder(), "/", names[0], "/train.sh");
  std::error_code ignored;
  if (names[0].find('/') != std::string::npos || !fs::is_regular_file(recipe, ignored)) {
    Fail(ErrorCode::kNotFound,
         StrCat("the model '", names[0], "' has no recipe: there is no ", recipe));
  }
  const fs::path commands = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const char* path = std::getenv("PATH");
  const std::string extended =
      StrCat((commands / "../../bin").string(), ":", commands.string(), ":", path ? path : "");
  ::setenv("PATH", extended.c_str(), 1);
  ::setenv("MODELS", ModelsFolder().c_str(), 1);
  ::execlp("sh", "sh", recipe.c_str(), static_cast<char*>(nullptr));
  Fail(ErrorCode::kIoFailure, StrCat("sh cannot be started: ", std::strerror(errno)));
}

struct Action {
  const char* name;
  size_t least;  // names
  size_t most;
  int (*run)(const Words&);
};

constexpr size_t kMany = 1000000;
constexpr std::array<Action, 4> kActions = {{{"get", 1, kMany, RunGet},
                                             {"list", 0, 0, RunList},
                                             {"train", 1, 1, RunTrain},
                                             {"verify", 0, kMany, RunVerify}}};

int Run(Words words) {
  const Action& action = TakeAction("zoo", kActions, "", &words);
  if (words.size() < action.least || words.size() > action.most) {
    Fail(ErrorCode::kInvalidArgument, StrCat("zoo ", action.name, " takes ",
                                             action.most == 0   ? "no name"
                                             : action.most == 1 ? "one name"
                                                                : "names",
                                             " of models; got ", words.size()));
  }
  return action.run(words);
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
