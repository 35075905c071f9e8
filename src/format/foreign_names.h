// Names that users of PyTorch, Keras and YAML configurations write, and what they are called here.
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

namespace crema {

// Returns a hint such as " (did you mean 'base_lr'?)" for a name that is not a field of `type`;
// empty for names that are not in the tables.
std::string ForeignFieldHint(std::string_view name, const google::protobuf::Descriptor& type);

// Returns the field of `type` that another tool calls `name`, such as "base_lr" for "lr"; empty if
// there is none.
std::string FieldOfForeignName(std::string_view name, const google::protobuf::Descriptor& type);

// Returns a hint such as "; write Convolution" for the type of a layer; empty for other names.
std::string ForeignLayerHint(std::string_view type);

}  // namespace crema
