#include "common/output_file.h"

#include <gflags/gflags.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "core/strings.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

struct KindName {
  std::string_view name;
  std::vector<std::string_view> extensions;
};

constexpr std::string_view kText = "a text";
constexpr std::string_view kTable = "a table";
constexpr std::string_view kPrototxt = "a prototxt";
constexpr std::string_view kPicture = "a picture";
constexpr std::string_view kArray = "a mean image or recording";
constexpr std::string_view kBinary = "a binary file";

const std::vector<KindName>& Kinds() {
  static const std::vector<KindName> kinds = {
      {kText, {".txt"}},
      {kTable, {".csv", ".tsv"}},
      {kPrototxt, {".prototxt", ".pbtxt"}},
      {"an HTML page", {".html", ".htm"}},
      {"a JSON file", {".json"}},
      {"a graph of dot", {".dot", ".gv"}},
      {kPicture, {".png", ".jpg", ".jpeg", ".bmp", ".webp"}},
      {"an SVG picture", {".svg"}},
      {"a PDF file", {".pdf"}},
      {"a .npy array", {".npy"}},
      {"an archive", {".npz", ".pth", ".zip"}},
      {"an HDF5 file", {".h5", ".hdf5"}},
      {"a model of deploy export", {".crema"}},
      {"weights", {".caffemodel", ".safetensors"}},
      {"a solver state", {".solverstate"}},
      {"an ONNX model", {".onnx"}},
      {kArray, {".binaryproto", ".golden"}},
      {"a data set", {".mdb", ".tar"}}};
  return kinds;
}

// Empty: unknown.
std::string_view KindByExtension(std::string_view extension) {
  for (const KindName& kind : Kinds()) {
    if (std::ranges::find(kind.extensions, extension) != kind.extensions.end()) return kind.name;
  }
  return {};
}

// Returns true for "name: x" and "layer {", comments before them left out.
bool LooksLikePrototxt(std::string_view text) {
  for (const std::string& written : Split(text, '\n')) {
    const std::string_view line = Trim(written);
    if (line.empty() || line.starts_with('#')) continue;
    const auto* const end =
        std::ranges::find_if_not(line, [](unsigned char c) { return c == '_' || std::isalnum(c); });
    const std::string_view rest = Trim(line.substr(static_cast<size_t>(end - line.begin())));
    return end != line.begin() && (rest.starts_with(':') || rest.starts_with('{'));
  }
  return false;
}

std::string_view KindOfText(std::string_view text) {
  text = Trim(text);
  if (text.starts_with("<svg") || text.starts_with("<?xml")) return "an SVG picture";
  if (text.starts_with('<')) return "an HTML page";
  if (text.starts_with('{') || text.starts_with('[')) return "a JSON file";
  if (text.starts_with("digraph")) return "a graph of dot";
  if (LooksLikePrototxt(text)) return kPrototxt;
  return text.substr(0, text.find('\n')).find(',') == std::string_view::npos ? kText : kTable;
}

std::string_view KindOfContent(std::string_view start) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kBegins = {
      {{"\x89PNG", kPicture},
       {"\xff\xd8\xff", kPicture},
       {"RIFF", kPicture},
       {"BM", kPicture},
       {"%PDF", "a PDF file"},
       {"\x93NUMPY", "a .npy array"},
       {"PK\x03\x04", "an archive"},
       {"\x89HDF", "an HDF5 file"},
       {"\x89"
        "CRM",
        "a model of deploy export"}}};
  for (const auto& [begin, kind] : kBegins) {
    if (start.starts_with(begin)) return kind;
  }
  const bool is_text = std::ranges::none_of(start, [](unsigned char c) {
    return c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f';
  });
  return is_text ? KindOfText(start) : kBinary;
}

// Empty: there is no such file, it is empty, or it cannot be read.
std::string_view KindOfFile(const std::string& path) {
  constexpr size_t kStart = 4096;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  try {
    const std::string start = ReadFileStart(path, kStart);
    return start.empty() ? std::string_view() : KindOfContent(start);
  } catch (const Error&) {
    return {};  // whoever writes it reports why
  }
}

bool IsBinaryKind(std::string_view kind) {
  static const std::set<std::string_view> binary = {"weights", "a solver state", "an ONNX model",
                                                    kArray,    "a data set",     kBinary};
  return binary.contains(kind);
}

// Returns true if a file of kind `written` may replace one of kind `found`.
// `named`: the kind of its extension, which decides for a text, such as a table of one column.
bool MayReplace(std::string_view written, std::string_view found, std::string_view named) {
  if (written.empty() || found.empty() || written == found) return true;
  if (written == kText) return !IsBinaryKind(found);
  if (found == kText) return written == named;
  return IsBinaryKind(written) && found == kBinary;
}

// Ignores devices and pipes, which may be read and written at the same time.
std::optional<std::pair<dev_t, ino_t>> Identity(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

// An argument is named in capitals, as OUTPUT.
std::string FlagOrArgument(const std::string& name) {
  return std::isupper(static_cast<unsigned char>(name[0])) != 0 ? name : Dashed(name);
}

// An extension that contradicts what is written is a slip: report -o run.caffemodel.
void CheckExtension(const std::string& name, const std::string& output,
                    std::string_view extension) {
  const std::string own = fs::path(output).extension().string();
  const std::string_view written = KindByExtension(extension);
  const std::string_view named = KindByExtension(own);
  if (named.empty() || named == kText || named == written) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat(FlagOrArgument(name), " writes ", written, ", but ", output, " has the extension of ",
              named, "; write to a file that ends in ", extension));
}

void RefuseDataSet(const std::string& name, const std::string& folder) {
  std::error_code ignored;
  for (const char* part : {"data.mdb", "CURRENT"}) {
    if (!fs::exists(fs::path(folder) / part, ignored)) continue;
    Fail(ErrorCode::kInvalidArgument,
         StrCat(FlagOrArgument(name), ": ", folder, " is a data set; name another folder"));
  }
}

}  // namespace

ProtectedFiles::ProtectedFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (const auto file = Identity(path)) files_.insert(*file);
  }
}

void ProtectedFiles::RefuseToReplace(const std::string& name, const std::string& output,
                                     std::string_view extension) const {
  const auto file = Identity(output);
  if (file && files_.contains(*file)) {
    Fail(ErrorCode::kInvalidArgument, StrCat(FlagOrArgument(name), " would replace ", output,
                                             ", which is read; write somewhere else"));
  }
  const std::string own = fs::path(output).extension().string();
  if (!extension.empty()) CheckExtension(name, output, extension);
  const std::string_view written = KindByExtension(extension.empty() ? own : extension);
  const std::string_view found = KindOfFile(output);
  if (MayReplace(written, found, KindByExtension(own))) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat(FlagOrArgument(name), " would replace ", output, ", which is ", found, ", by ",
              written, "; write somewhere else"));
}

void CheckOutputFlags(const std::vector<FlagEntry>& flags,
                      const std::vector<std::string>& arguments) {
  const auto values = [](const FlagEntry& flag) {
    const std::string value = google::GetCommandLineFlagInfoOrDie(flag.name.c_str()).current_value;
    if (!flag.placeholder.starts_with("FILES")) return std::vector<std::string>{value};
    const auto parts = Split(value, ',');
    return std::vector<std::string>(parts.begin(), parts.end());
  };
  const auto is_output = [](const FlagEntry& flag) {
    return flag.group == "Output" && flag.placeholder.starts_with("FILE");
  };
  std::vector<std::string> read = arguments;
  for (const FlagEntry& flag : flags) {
    if (flag.type != "string" || flag.group != "Input") continue;
    for (const std::string& value : values(flag)) read.push_back(value);
  }
  const ProtectedFiles inputs(read);
  std::set<fs::path> taken;
  for (const FlagEntry& flag : flags) {
    if (flag.group == "Output" && flag.placeholder.starts_with("FOLDER")) {
      RefuseDataSet(flag.name,
                    google::GetCommandLineFlagInfoOrDie(flag.name.c_str()).current_value);
    }
    if (!is_output(flag)) continue;
    const std::string extension = fs::path(flag.placeholder).extension().string();
    for (const std::string& path : values(flag)) {
      if (path.empty() || path == "-") continue;
      inputs.RefuseToReplace(flag.name, path, extension);
      std::error_code ignored;
      if (taken.insert(fs::weakly_canonical(fs::absolute(path), ignored)).second) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat(FlagOrArgument(flag.name), ": ", path, " is written twice; name two files"));
    }
  }
}

}  // namespace crema::tools
