#include <google/protobuf/descriptor.h>

#include <span>

#include "core/strings.h"
#include "format/text_parser.h"

namespace crema {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

namespace {

std::vector<std::string> FieldNames(const Descriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.field_count(); ++i) names.push_back(type.field(i)->name());
  return names;
}

// Names the blocks of this message that have such a field.
std::vector<std::string> BlocksWith(const std::string& name, const Descriptor& type) {
  std::vector<std::string> blocks;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& block = *type.field(i);
    if (block.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (block.message_type() == &type) continue;
    if (block.message_type()->FindFieldByName(name) != nullptr) {
      blocks.push_back("'" + block.name() + "'");
    }
  }
  return blocks;
}

}  // namespace

std::string UnknownFieldHint(std::string_view name, const Descriptor& type,
                             std::span<const Descriptor* const> outer) {
  const std::string word(name);
  for (const Descriptor* enclosing : outer) {
    if (enclosing->FindFieldByName(word) != nullptr) {
      return " (it belongs outside of this block: is a '}' missing before it?)";
    }
  }
  std::vector<std::string> blocks = BlocksWith(word, type);
  constexpr size_t kMost = 4;
  // A field of another block beside this one: 'pool' in 'convolution_param'.
  if (blocks.empty() && !outer.empty()) blocks = BlocksWith(word, *outer.back());
  if (!blocks.empty() && blocks.size() <= kMost) {
    return " (it belongs in " + Join(blocks, " or ") + ")";
  }
  return DidYouMean(name, FieldNames(type));
}

}  // namespace crema
