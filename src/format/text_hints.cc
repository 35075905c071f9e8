#include <google/protobuf/descriptor.h>

#include <span>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/foreign_names.h"
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

// Returns a field of this message that is almost the same: one typing error, or a part of its words
// ("ratio" of "dropout_ratio"). Empty if there is none.
std::string VeryNear(const std::string& word, std::span<const std::string> names) {
  constexpr size_t kLeast = 4;  // one edit turns shorter words into anything
  const std::string nearest = word.size() < kLeast ? "" : Nearest(word, names, 1);
  if (!nearest.empty() || word.size() < 2) return nearest;
  for (const std::string& name : names) {
    if (name.ends_with("_param")) continue;
    if (name.ends_with("_" + word) || name.starts_with(word + "_")) return name;
  }
  return "";
}

}  // namespace

std::string UnknownFieldHint(std::string_view name, const Descriptor& type,
                             std::span<const Descriptor* const> outer) {
  const std::string word(name);
  const std::string foreign = ForeignFieldHint(name, type);
  if (!foreign.empty()) return foreign;
  const std::vector<std::string> names = FieldNames(type);
  for (const Descriptor* enclosing : outer) {
    if (enclosing->FindFieldByName(word) != nullptr) {
      return " (it belongs outside of this block: is a '}' missing before it?)";
    }
  }
  const Descriptor& net = *NetParameter::descriptor();
  const Descriptor& solver = *SolverParameter::descriptor();
  if (&type == &solver && net.FindFieldByName(word) != nullptr) return " (it belongs in the net)";
  if (&type == &net && solver.FindFieldByName(word) != nullptr) {
    return " (it belongs in the solver)";
  }
  const std::string near = VeryNear(word, names);
  if (!near.empty()) return StrCat(" (did you mean '", near, "'?)");
  std::vector<std::string> blocks = BlocksWith(word, type);
  constexpr size_t kMost = 8;  // of more blocks, none is likely
  constexpr size_t kNamed = 3;
  // A field of another block beside this one: 'pool' in 'convolution_param'.
  if (blocks.empty() && !outer.empty()) blocks = BlocksWith(word, *outer.back());
  if (!blocks.empty() && blocks.size() <= kMost) {
    if (blocks.size() > kNamed + 1) {
      blocks.resize(kNamed);
      blocks.emplace_back("another block");
    }
    return " (it belongs in " + Join(blocks, " or ") + ")";
  }
  return DidYouMean(name, names);
}

}  // namespace crema
