#include "zoo/manifest.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/printable.h"
#include "core/sha256.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kSchema = 1;

bool IsName(const std::string& name) {
  return !name.empty() && name[0] != '.' && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool IsSum(const std::string& text) {
  return text.size() == 64 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string MistakeIn(const ZooManifest::Model& model) {
  if (!IsName(model.name())) {
    return StrCat("'", Printable(model.name()),
                  "' is no name of a model: letters, digits, '.', '_', '-'");
  }
  for (const ZooManifest::File& file : model.files()) {
    const std::vector<std::string> parts = Split(file.path(), '/');
    const bool inside = parts.size() > 1 && parts[0] == model.name() &&
                        std::ranges::all_of(parts, IsName) && !parts.back().ends_with(".part");
    if (!inside) {
      return StrCat("path '", Printable(file.path()), "' of model ", model.name(),
                    " is not that of a file in its folder");
    }
    if (file.bytes() <= 0 || file.bytes() > static_cast<int64_t>(kMaxFileBytes)) {
      return StrCat(file.path(), ": 'bytes' is ", file.bytes(), "; files have 1 to ",
                    kMaxFileBytes);
    }
    if (!IsSum(file.sha256())) return StrCat(file.path(), ": 'sha256' is not 64 hex digits");
  }
  return "";
}

}  // namespace

ZooManifest ParseManifest(const std::string& json, const std::string& origin) {
  ZooManifest manifest;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &manifest, options);
  if (!status.ok()) {
    Fail(ErrorCode::kDataLoss, StrCat("is no manifest of a zoo: ", Printable(status.ToString())),
         {.file = origin});
  }
  if (manifest.schema() != kSchema) {
    Fail(ErrorCode::kUnsupported,
         StrCat("has schema ", manifest.schema(), "; this version reads ", kSchema),
         {.file = origin});
  }
  std::set<std::string> seen;
  for (const ZooManifest::Model& model : manifest.models()) {
    std::string mistake = MistakeIn(model);
    if (!seen.insert(model.name()).second) mistake = StrCat("has two models ", model.name());
    for (const ZooManifest::File& file : model.files()) {
      if (!seen.insert(file.path()).second) mistake = StrCat("has ", file.path(), " twice");
    }
    if (!mistake.empty()) Fail(ErrorCode::kDataLoss, mistake, {.file = origin});
  }
  return manifest;
}

const ZooManifest::Model& FindModel(const ZooManifest& manifest, const std::string& name) {
  std::vector<std::string> names;
  for (const ZooManifest::Model& model : manifest.models()) {
    if (model.name() == name) return model;
    names.push_back(model.name());
  }
  Fail(ErrorCode::kNotFound, StrCat("the zoo has no model '", name, "'", DidYouMean(name, names),
                                    "; it has ", Join(names, " ")));
}

int64_t BytesOf(const ZooManifest::Model& model) {
  int64_t bytes = 0;
  for (const ZooManifest::File& file : model.files()) bytes += file.bytes();
  return bytes;
}

std::string WrongIn(const ZooManifest::File& entry, const std::string& path) {
  std::error_code error;
  const uintmax_t bytes = fs::file_size(path, error);
  if (error) return "is missing";
  if (bytes != static_cast<uintmax_t>(entry.bytes())) {
    return StrCat("has ", bytes, " bytes, not ", entry.bytes());
  }
  const std::string sum = Sha256Hex(ReadFile(path));
  return sum == entry.sha256() ? "" : StrCat("has the SHA-256 ", sum, ", not ", entry.sha256());
}

}  // namespace crema::tools
