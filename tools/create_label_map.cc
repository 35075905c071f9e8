// create_label_map: makes the LabelMap of a detector from a list of class names.
#include <gflags/gflags.h>

#include <charconv>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/output_file.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/data_file.h"
#include "format/file.h"
#include "format/prototxt.h"

DEFINE_string(delimiter, " ", "[Input CHARACTERS] each of them ends a field of a line");
DEFINE_bool(include_background, false, "[Output] begin with none_of_the_above, label 0");

namespace crema::tools {
namespace {

constexpr const char* kUsage =
    "crema create_label_map [flags] MAPFILE OUTPUT\n"
    "\n"
    "Writes a LabelMap for annotated_data_param.label_map_file. Each line of MAPFILE is a class:\n"
    "NAME [LABEL [DISPLAY_NAME]]. All lines have as many fields as the first. Without labels,\n"
    "the classes are numbered from 0, or from 1 with --include_background.\n"
    "\n"
    "Examples:\n"
    "crema create_label_map --include_background names.txt labelmap.prototxt\n"
    "crema create_label_map --delimiter=, coco_labels.txt labelmap_coco.prototxt";

std::vector<std::string> FieldsOf(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (FLAGS_delimiter.find(c) == std::string::npos) {
      fields.back() += c;
    } else {
      fields.emplace_back();
    }
  }
  return fields;
}

class MapReader {
 public:
  explicit MapReader(const std::string& path) : path_(path) {
    if (FLAGS_include_background) Add("none_of_the_above", 0, "background");
    for (const std::string& line : Split(ReadDataFile(path), '\n')) {
      ++line_;
      if (!Trim(line).empty()) AddLine(std::string(Trim(line)));
    }
    if (fields_ == 0) Fail(ErrorCode::kDataLoss, "names no class", {.file = path});
  }

  LabelMap Take() { return std::move(map_); }

 private:
  [[noreturn]] void FailHere(const std::string& message) const {
    Fail(ErrorCode::kDataLoss, message, {.file = path_, .line = line_, .column = 1});
  }

  void AddLine(const std::string& line) {
    const std::vector<std::string> fields = FieldsOf(line);
    if (fields_ == 0) fields_ = fields.size();
    if (fields.size() != fields_ || fields_ > 3) {
      FailHere(StrCat(
          "'", line, "' has ", fields.size(), fields.size() == 1 ? " field" : " fields",
          ", expected ",
          fields_ > 3 ? "NAME [LABEL [DISPLAY_NAME]]" : StrCat(fields_, " as in the first line"),
          "; --delimiter='", FLAGS_delimiter, "' divides them"));
    }
    const int label = fields_ > 1 ? LabelOf(fields[1]) : map_.item_size();
    Add(fields[0], label, fields_ == 3 ? fields[2] : fields[0]);
  }

  int LabelOf(const std::string& text) const {
    int label = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, label);
    if (error != std::errc() || end != last || label < 0) {
      FailHere(StrCat("the label '", text,
                      "' is not a whole number from 0 on; --delimiter divides the fields"));
    }
    return label;
  }

  void Add(const std::string& name, int label, const std::string& display_name) {
    if (!names_.insert(name).second) FailHere(StrCat("the class '", name, "' is given twice"));
    if (!labels_.insert(label).second) FailHere(StrCat("the label ", label, " is given twice"));
    LabelMapItem* item = map_.add_item();
    item->set_name(name);
    item->set_label(label);
    item->set_display_name(display_name);
  }

  const std::string path_;
  int line_ = 0;
  size_t fields_ = 0;  // of a line; 0: none was read
  std::set<std::string> names_;
  std::set<int> labels_;
  LabelMap map_;
};

int Run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 2) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("expected MAPFILE OUTPUT, got ", arguments.size(), " arguments; see --help"));
  }
  ProtectedFiles({arguments[0]}).RefuseToReplace("OUTPUT", arguments[1], ".prototxt");
  WriteFileAtomically(arguments[1], PrintText(MapReader(arguments[0]).Take()));
  return 0;
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  return crema::tools::RunTool(argc, argv, crema::tools::kUsage, crema::tools::Run);
}
