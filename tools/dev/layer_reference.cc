// layer_reference: prints docs/layers.md from the registry and the comments of the schema, or with
// --facts what this build can do with each type, for the pages of scripts/site/.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "graph/implementation.h"
#include "graph/registry.h"

namespace crema::tools {
namespace {

namespace pb = google::protobuf;

// Formats as one line for a table cell.
std::string Cell(const std::string& text) {
  std::string line;
  for (char c : text) {
    if (c == '\n') c = ' ';
    if (c == ' ' && (line.empty() || line.back() == ' ')) continue;
    if (c == '|' || c == '<' || c == '*') line += '\\';
    line += c;
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string Anchor(const std::string& name) {
  std::string anchor = name;
  std::ranges::transform(anchor, anchor.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return anchor;
}

template <typename Descriptor>
std::string CommentOf(const Descriptor& descriptor) {
  pb::SourceLocation location;
  if (!descriptor.GetSourceLocation(&location)) return {};
  return location.leading_comments + location.trailing_comments;
}

std::string DefaultOf(const pb::FieldDescriptor& field) {
  using Field = pb::FieldDescriptor;
  if (field.is_repeated()) return "none";
  if (field.cpp_type() == Field::CPPTYPE_MESSAGE || !field.has_default_value()) return "unset";
  switch (field.cpp_type()) {
    case Field::CPPTYPE_BOOL:
      return field.default_value_bool() ? "true" : "false";
    case Field::CPPTYPE_ENUM:
      return field.default_value_enum()->name();
    case Field::CPPTYPE_FLOAT:
      return StrCat(field.default_value_float());
    case Field::CPPTYPE_DOUBLE:
      return StrCat(field.default_value_double());
    case Field::CPPTYPE_INT32:
      return StrCat(field.default_value_int32());
    case Field::CPPTYPE_UINT32:
      return StrCat(field.default_value_uint32());
    case Field::CPPTYPE_INT64:
      return StrCat(field.default_value_int64());
    case Field::CPPTYPE_UINT64:
      return StrCat(field.default_value_uint64());
    case Field::CPPTYPE_STRING:
      return StrCat('"', field.default_value_string(), '"');
    default:
      return "unset";
  }
}

class Reference {
 public:
  Reference(const Registry& registry, const pb::FileDescriptor& schema)
      : registry_(registry), layer_(*schema.FindMessageTypeByName("LayerParameter")) {}

  void Print() {
    PrintHead();
    for (const auto& [category, types] : Families()) {
      std::cout << "\n# " << category << "\n";
      for (const LayerType* type : types) PrintType(*type);
    }
    std::cout << "\n# Shared messages\n\nMessages that fields of the layers above hold.\n";
    PrintNested();
  }

 private:
  using Family = std::map<std::string, std::vector<const LayerType*>>;
  Family Families() const {
    Family families;
    for (const std::string& name : registry_.Names()) {
      const LayerType* type = registry_.Find(name);
      families[type->category].push_back(type);
    }
    return families;
  }

  void PrintHead() {
    std::cout << "<!-- Made by tools/dev/layer_reference.cc (`make docs`); do not edit. -->\n"
                 "# Layers\n\n"
                 "Every layer has `name`, `type`, `bottom` and `top`, and may have `include`, "
                 "`exclude`, `phase`,\n`param` (lr_mult, decay_mult and a name for sharing, one "
                 "entry for each parameter blob),\n`loss_weight` (one for each top) and "
                 "`propagate_down` (one for each bottom). Shapes are written\nN x C x H x W; axes "
                 "are counted from 0, negative ones from the end. \"unset\" is different from\n"
                 "any value.\n\n";
    for (const auto& [category, types] : Families()) {
      std::cout << "- " << category << ":";
      for (const LayerType* type : types) {
        std::cout << (type == types.front() ? " " : ", ") << "[" << type->name << "](#"
                  << Anchor(type->name) << ")";
      }
      std::cout << "\n";
    }
  }

  void PrintType(const LayerType& type) {
    std::cout << "\n## " << type.name << "\n\n";
    if (!type.alias_of.empty()) {
      std::cout << "Another name of [" << type.alias_of << "](#" << Anchor(type.alias_of) << ").";
    } else {
      std::cout << type.summary;
    }
    std::cout << " *(" << type.origin << ")*\n";
    if (!type.formula.empty()) std::cout << "\n```\n" << type.formula << "\n```\n";
    PrintList("Inputs", type.input_docs);
    PrintList("Outputs", type.output_docs);
    for (const std::string& field : type.param_fields) PrintParameter(type, field);
    PrintList("Parameters", type.parameter_docs);
    if (type.default_loss_weight != 0) {
      std::cout << "\nThe first top has loss weight " << type.default_loss_weight
                << " if the text gives none.\n";
    }
    PrintList("Differences from " + type.origin, type.differences);
    PrintExample(type);
  }

  static void PrintList(const std::string& title, const std::vector<std::string>& texts) {
    if (texts.empty()) return;
    std::cout << "\n**" << title << "**\n\n";
    for (size_t i = 0; i < texts.size(); ++i) std::cout << i + 1 << ". " << texts[i] << "\n";
  }

  void PrintParameter(const LayerType& type, const std::string& name) {
    const pb::FieldDescriptor* field = layer_.FindFieldByName(name);
    CREMA_CHECK(field != nullptr);
    std::cout << "\n**`" << name << "`**";
    if (field->message_type() == nullptr) {
      std::cout << ": " << Cell(CommentOf(*field)) << "\n";
      return;
    }
    std::set<std::string> unread;
    for (const std::string& path : type.unread_fields) {
      if (path.starts_with(name + ".")) unread.insert(path.substr(name.size() + 1));
    }
    std::cout << "\n\n";
    PrintFields(*field->message_type(), unread);
    if (unread.empty()) return;
    std::cout << "\nAccepted with a warning, without effect:";
    for (const std::string& path : unread) std::cout << " `" << path << "`";
    std::cout << "\n";
  }

  void PrintFields(const pb::Descriptor& message, const std::set<std::string>& unread) {
    std::cout << "| field | type | default | meaning |\n|---|---|---|---|\n";
    for (int i = 0; i < message.field_count(); ++i) {
      const pb::FieldDescriptor& field = *message.field(i);
      if (unread.contains(field.name())) continue;
      std::cout << "| `" << field.name() << "` | " << TypeOf(field) << " | "
                << Cell(DefaultOf(field)) << " | " << Cell(CommentOf(field));
      if (field.enum_type() != nullptr) std::cout << ValuesOf(*field.enum_type());
      std::cout << " |\n";
    }
  }

  std::string TypeOf(const pb::FieldDescriptor& field) {
    std::string text = field.is_repeated() ? "list of " : "";
    if (field.enum_type() != nullptr) return text + field.enum_type()->name();
    if (field.message_type() == nullptr) return text + field.type_name();
    const std::string& name = field.message_type()->name();
    if (seen_.insert(name).second) nested_.push_back(field.message_type());
    return StrCat(text, "[", name, "](#", Anchor(name), ")");
  }

  static std::string ValuesOf(const pb::EnumDescriptor& type) {
    std::string text;
    for (int i = 0; i < type.value_count(); ++i) {
      text += StrCat(" `", type.value(i)->name(), "`");
      const std::string comment = Cell(CommentOf(*type.value(i)));
      text += comment.empty() ? ";" : StrCat(": ", comment);
    }
    return text;
  }

  // The list grows while it is printed: messages contain messages.
  void PrintNested() {
    for (size_t i = 0; i < nested_.size(); ++i) {  // NOLINT(modernize-loop-convert)
      const pb::Descriptor& message = *nested_[i];
      std::cout << "\n## " << message.name() << "\n\n";
      const std::string comment = Cell(CommentOf(message));
      if (!comment.empty()) std::cout << comment << "\n\n";
      PrintFields(message, {});
    }
  }

  static void PrintExample(const LayerType& type) {
    if (type.samples.empty() && type.example.empty()) return;
    std::cout << "\nExample:\n\n```\nlayer {\n  name: \"" << Anchor(type.name) << "\"\n  type: \""
              << type.name << "\"\n";
    if (!type.example.empty()) {
      for (const std::string& line : Split(type.example, '\n')) std::cout << "  " << line << "\n";
    } else {
      PrintSample(type.samples.front());
    }
    std::cout << "}\n```\n";
  }

  static void PrintSample(const LayerSample& sample) {
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      std::cout << "  bottom: \"in" << i << "\"  # "
                << ToString(Shape(std::span<const int64_t>(sample.inputs[i].shape))) << "\n";
    }
    for (int i = 0; i < sample.outputs; ++i) std::cout << "  top: \"out" << i << "\"\n";
    if (!sample.prototxt.empty()) std::cout << "  " << sample.prototxt << "\n";
  }

  const Registry& registry_;
  const pb::Descriptor& layer_;
  std::set<std::string> seen_;
  std::vector<const pb::Descriptor*> nested_;
};

// Reads the output of `protoc --include_source_info --descriptor_set_out`, with comments.
int Run(const std::string& path) {
  pb::FileDescriptorSet files;
  std::ifstream stream(path, std::ios::binary);
  if (!files.ParseFromIstream(&stream) || files.file_size() == 0) {
    Fail(ErrorCode::kDataLoss, "not a set of descriptors: " + path);
  }
  pb::DescriptorPool pool;
  const pb::FileDescriptor* schema = pool.BuildFile(files.file(files.file_size() - 1));
  CREMA_CHECK(schema != nullptr);
  Reference(BuiltinRegistry(), *schema).Print();
  return 0;
}

// Prints one line of JSON for each type. Names need no escapes.
void PrintFacts(const Registry& registry) {
  for (const std::string& name : registry.Names()) {
    const LayerType& type = *registry.Find(name);
    const auto differentiable = [](const LayerSample& sample) { return sample.gradient; };
    std::set<std::string> names;
    std::string list;
    for (const auto& implementation : type.implementations) {
      if (implementation->device != DeviceType::kCpu) continue;
      if (!names.insert(implementation->name).second) continue;
      list += StrCat(list.empty() ? "" : ", ", '"', implementation->name, '"');
    }
    std::cout << std::boolalpha << "{\"type\": \"" << name
              << "\", \"samples\": " << type.samples.size()
              << ", \"gradient\": " << std::ranges::any_of(type.samples, differentiable)
              << ", \"cpu\": [" << list << "], \"bits16\": " << type.traits.fits_16_bits
              << ", \"tf32\": " << type.traits.multiplies_matrices
              << ", \"bytes\": " << type.traits.computes_on_bytes << "}\n";
  }
}

}  // namespace
}  // namespace crema::tools

int main(int argc, char** argv) {
  try {
    constexpr const char* kUsage =
        "usage: layer_reference DESCRIPTORS >docs/layers.md\n"
        "       layer_reference --facts\n";
    const std::string argument = argc == 2 ? argv[1] : "";
    if (argument == "--help" || argument == "-h") {
      std::cout << kUsage;
      return 0;
    }
    if (argument == "--facts") {
      crema::tools::PrintFacts(crema::BuiltinRegistry());
      return 0;
    }
    if (argument.empty() || argument.starts_with('-')) {
      std::cerr << kUsage;
      return 2;
    }
    return crema::tools::Run(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "layer_reference: " << error.what() << "\n";
    return 1;
  }
}
