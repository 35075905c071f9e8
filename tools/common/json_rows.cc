#include "common/json_rows.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstdio>

#include "core/strings.h"

namespace crema::tools {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

std::optional<Struct> Parse(std::string_view text) {
  Struct object;
  const auto status = google::protobuf::util::JsonStringToMessage(std::string(text), &object);
  if (!status.ok()) return std::nullopt;
  return object;
}

std::string NumberText(double value) {
  char text[40];
  // Seeds are drawn below 2^53, where every integer is exact.
  const bool whole = value == std::floor(value) && std::abs(value) <= 0x1p53;
  std::snprintf(text, sizeof(text), whole ? "%.0f" : "%.12g", value);
  return text;
}

std::optional<std::string> TextOf(const Value& value) {
  switch (value.kind_case()) {
    case Value::kStringValue:
      return value.string_value();
    case Value::kNumberValue:
      return NumberText(value.number_value());
    case Value::kBoolValue:
      return value.bool_value() ? "true" : "false";
    case Value::kListValue: {
      std::vector<std::string> words;
      for (const Value& entry : value.list_value().values()) {
        words.push_back(TextOf(entry).value_or(""));
      }
      return Join(words, " ");
    }
    default:
      return std::nullopt;
  }
}

JsonMembers MembersOf(const Struct& object) {
  JsonMembers members;
  for (const auto& [name, value] : object.fields()) {
    if (std::optional<std::string> text = TextOf(value)) members[name] = std::move(*text);
  }
  return members;
}

}  // namespace

std::optional<JsonMembers> ParseJsonMembers(std::string_view text) {
  const std::optional<Struct> object = Parse(text);
  if (!object) return std::nullopt;
  return MembersOf(*object);
}

JsonMembers JsonMembersOf(std::string_view text, const std::string& name) {
  const std::optional<Struct> object = Parse(text);
  if (!object) return {};
  const auto found = object->fields().find(name);
  return found == object->fields().end() ? JsonMembers() : MembersOf(found->second.struct_value());
}

std::vector<std::string> JsonListOf(std::string_view text, const std::string& name) {
  const std::optional<Struct> object = Parse(text);
  std::vector<std::string> texts;
  if (!object) return texts;
  const auto found = object->fields().find(name);
  if (found == object->fields().end()) return texts;
  for (const Value& entry : found->second.list_value().values()) {
    texts.push_back(TextOf(entry).value_or(""));
  }
  return texts;
}

}  // namespace crema::tools
