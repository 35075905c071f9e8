// The layer types and the fields of messages, for crema/_schema.py.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "core/error.h"
#include "core/strings.h"
#include "feed.h"

namespace crema::python {
namespace {

namespace pb = google::protobuf;

struct SchemaField {
  std::string name;
  std::string type;  // "int32", "float", "string", ...; the name of a message or an enum
  bool repeated = false;
  bool is_message = false;
  std::string default_value;                        // as in text; empty: unset
  std::vector<std::pair<std::string, int>> values;  // of an enum
  std::string doc;
};

template <typename Descriptor>
std::string CommentOf(const Descriptor& descriptor) {
  pb::SourceLocation location;
  if (!descriptor.GetSourceLocation(&location)) return {};
  std::string text;
  for (const char c : location.leading_comments + location.trailing_comments) {
    const bool is_space = c == '\n' || c == ' ';
    if (!is_space) text += c;
    if (is_space && !text.empty() && text.back() != ' ') text += ' ';
  }
  return std::string(Trim(text));
}

SchemaField Describe(const pb::FieldDescriptor& descriptor) {
  pb::FieldDescriptorProto written;
  descriptor.CopyTo(&written);
  SchemaField field{.name = descriptor.name(),
                    .type = descriptor.type_name(),
                    .repeated = descriptor.is_repeated(),
                    .is_message = descriptor.message_type() != nullptr,
                    .default_value = written.default_value(),
                    .doc = CommentOf(descriptor)};
  if (field.is_message) field.type = descriptor.message_type()->name();
  const pb::EnumDescriptor* const values = descriptor.enum_type();
  if (values == nullptr) return field;
  field.type = values->name();
  for (int i = 0; i < values->value_count(); ++i) {
    const pb::EnumValueDescriptor& value = *values->value(i);
    field.values.emplace_back(value.name(), value.number());
    const std::string comment = CommentOf(value);
    if (!comment.empty()) field.doc += StrCat(" ", value.name(), ": ", comment);
  }
  return field;
}

using Messages = std::map<std::string, std::vector<SchemaField>>;

void Describe(const pb::Descriptor& message, Messages* messages) {
  std::vector<SchemaField>& fields = (*messages)[message.name()];
  for (int i = 0; i < message.field_count(); ++i) fields.push_back(Describe(*message.field(i)));
  for (int i = 0; i < message.nested_type_count(); ++i) {
    Describe(*message.nested_type(i), messages);
  }
}

// Reads crema.desc, which has the comments of the schema.
Messages ReadSchema(const nb::bytes& descriptors) {
  pb::FileDescriptorSet files;
  pb::DescriptorPool pool;
  const pb::FileDescriptor* schema = nullptr;
  if (files.ParseFromArray(descriptors.data(), static_cast<int>(descriptors.size())) &&
      files.file_size() > 0) {
    schema = pool.BuildFile(files.file(files.file_size() - 1));
  }
  if (schema == nullptr) Fail(ErrorCode::kDataLoss, "crema.desc has no schema");
  Messages messages;
  for (int i = 0; i < schema->message_type_count(); ++i) {
    Describe(*schema->message_type(i), &messages);
  }
  return messages;
}

}  // namespace

void BindSchema(nb::module_& module) {
  nb::class_<SchemaField>(module, "SchemaField", "A field of a message.")
      .def_ro("name", &SchemaField::name)
      .def_ro("type", &SchemaField::type)
      .def_ro("repeated", &SchemaField::repeated)
      .def_ro("is_message", &SchemaField::is_message)
      .def_ro("default", &SchemaField::default_value)
      .def_ro("values", &SchemaField::values)
      .def_ro("doc", &SchemaField::doc);
  nb::class_<LayerType>(module, "LayerType", "A type of layers.")
      .def_ro("name", &LayerType::name)
      .def_ro("alias_of", &LayerType::alias_of)
      .def_ro("summary", &LayerType::summary)
      .def_ro("formula", &LayerType::formula)
      .def_ro("input_docs", &LayerType::input_docs)
      .def_ro("output_docs", &LayerType::output_docs)
      .def_prop_ro("param_fields", &FieldsOfUsers)
      .def_prop_ro(
          "inputs",
          [](const LayerType& type) { return std::make_pair(type.inputs.min, type.inputs.max); })
      .def_prop_ro(
          "outputs",
          [](const LayerType& type) { return std::make_pair(type.outputs.min, type.outputs.max); })
      .def_ro("outputs_equal_inputs", &LayerType::outputs_equal_inputs);
  module.def(
      "layer_type", [](const std::string& name) { return Layers().Find(name); }, nb::arg("name"),
      nb::rv_policy::reference, nb::sig("def layer_type(name: str) -> LayerType | None"),
      "A layer type, or None for an unknown name.");
  module.def("read_schema", &ReadSchema, nb::arg("descriptors"),
             "The fields of each message, from the bytes of crema.desc.");
  module.def(
      "did_you_mean",
      [](const std::string& word, const std::vector<std::string>& candidates) {
        return DidYouMean(word, candidates);
      },
      nb::arg("word"), nb::arg("candidates"), "\" (did you mean 'x'?)\", or nothing.");
}

}  // namespace crema::python
