// Fields of nets that are read from files but never used.
#pragma once

#include <google/protobuf/message.h>

#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/source_map.h"

namespace crema {

// Returns true if a field is set explicitly, to another value than its default.
bool IsSet(const google::protobuf::Message& message,
           const google::protobuf::FieldDescriptor& field);

// Returns a warning for each field, set in this net, that no code reads: most are of Caffe's forks.
// The layers have further ones, by type (LayerType::unread_fields).
std::vector<Problem> FindUnreadFields(const NetParameter& net, const SourceMap& source);

}  // namespace crema
