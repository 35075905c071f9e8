// What Caffe 1.0 (BVLC) knows: its layer types and the fields of its schema. Forks and Crema have
// more, which stock Caffe refuses in text and passes over in binary files.
#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/source_map.h"

namespace crema {

bool IsStockLayerType(std::string_view type);
bool IsStockField(const google::protobuf::FieldDescriptor& field);
bool IsStockEnumValue(const google::protobuf::EnumValueDescriptor& value);

// A problem for each field, value and layer type of a net or solver (upgraded, so without
// `layers`) that stock Caffe would not read, with the place where it stood.
std::vector<Problem> FindNotStock(const google::protobuf::Message& message,
                                  const SourceMap& source);

// A sentence naming the layers of a net whose types stock Caffe does not have; empty: none.
std::string DescribeLayersNotStock(const NetParameter& net);

}  // namespace crema
