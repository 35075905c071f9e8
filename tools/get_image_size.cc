// get_image_size: writes the sizes of images, for the name_size_file of a detector's output.
#include <gflags/gflags.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/ordered_work.h"
#include "common/output_file.h"
#include "common/tool.h"
#include "common/worker_flags.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/image/image.h"
#include "format/data_file.h"
#include "format/file.h"

DEFINE_string(name_id_file, "",
              "[Input FILE] lines NAME ID: write the ID of an image in place of its name");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema get_image_size [flags] ROOTFOLDER LISTFILE OUTPUT\n"
    "\n"
    "Writes a line NAME HEIGHT WIDTH for each image, for save_output_param.name_size_file of\n"
    "DetectionOutput. Lines of LISTFILE are PATH LABEL, or PATH and the path of an annotation;\n"
    "PATH is below ROOTFOLDER. NAME is the name of the file without extension.\n"
    "\n"
    "Examples:\n"
    "crema get_image_size VOCdevkit/ test.txt test_name_size.txt\n"
    "crema get_image_size --name_id_file=minival2014_name_id.txt coco/ minival.txt sizes.txt";

namespace fs = std::filesystem;

// The two fields of a line; the first may have spaces.
struct Pair {
  std::string first, second;
  std::string place;  // "line 3 of 'list.txt'"
};

std::vector<Pair> ReadPairs(const std::string& path, const char* form) {
  std::vector<Pair> pairs;
  int line_number = 0;
  for (const std::string& text : Split(ReadDataFile(path), '\n')) {
    ++line_number;
    const std::string line(Trim(text));
    if (line.empty()) continue;
    const size_t space = line.find_last_of(" \t");
    if (space == std::string::npos) {
      Fail(ErrorCode::kDataLoss, StrCat("'", line, "' is not ", form),
           {.file = path, .line = line_number, .column = 1});
    }
    pairs.push_back({std::string(Trim(line.substr(0, space))), line.substr(space + 1),
                     StrCat("line ", line_number, " of '", path, "'")});
  }
  if (pairs.empty()) Fail(ErrorCode::kDataLoss, StrCat("has no line ", form), {.file = path});
  return pairs;
}

std::map<std::string, std::string> ReadIds() {
  std::map<std::string, std::string> ids;
  if (FLAGS_name_id_file.empty()) return ids;
  for (const Pair& pair : ReadPairs(FLAGS_name_id_file, "`name id`")) {
    if (ids.emplace(pair.first, pair.second).second) continue;
    Fail(ErrorCode::kDataLoss, StrCat(pair.place, ": the name '", pair.first, "' is given twice"));
  }
  return ids;
}

// Returns a line of the output, by the size that a net sees: after the orientation of EXIF.
std::string LineOf(const Pair& entry, const std::string& root,
                   const std::map<std::string, std::string>& ids) {
  const fs::path path = root + entry.first;
  std::string name = path.stem().string();
  if (!ids.empty()) {
    const auto id = ids.find(name);
    if (id == ids.end()) {
      Fail(ErrorCode::kDataLoss,
           StrCat("'", FLAGS_name_id_file, "' has no name '", name, "' (", entry.place, ")"));
    }
    name = id->second;
  }
  Image image;
  DecodeImage(ReadDataFile(path.string(), StrCat(entry.place, ": the image")), ColorMode::kColor,
              StrCat("'", path.string(), "' (", entry.place, ")"), &image);
  return StrCat(name, " ", image.height, " ", image.width, "\n");
}

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3) {
    Fail(ErrorCode::kInvalidArgument, StrCat("expected ROOTFOLDER LISTFILE OUTPUT, got ",
                                             arguments.size(), " arguments; see --help"));
  }
  ProtectedFiles({arguments[1], FLAGS_name_id_file})
      .RefuseToReplace("OUTPUT", arguments[2], ".txt");
  const std::vector<Pair> entries = ReadPairs(arguments[1], "`path label`");
  const std::map<std::string, std::string> ids = ReadIds();
  size_t next = 0;
  std::string text;
  RunInOrder(
      WorkersOfFlags(),
      [&]() -> std::optional<size_t> {
        if (next == entries.size()) return std::nullopt;
        return next++;
      },
      [&](size_t index) { return LineOf(entries[index], arguments[0], ids); },
      [&](const std::string& line) { text += line; });
  WriteFileAtomically(arguments[2], text);
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
