// Layer types and fields of Caffe 1.0, the tag of April 2017 (BVLC). Stock Caffe refuses others (of
// forks, of Crema, and those added to Caffe in 2018: Clip, Swish, round_mode, the solver's weights)
// in text and skips them in binary files.
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

// Returns a problem with its position for each field, value and layer type that stock Caffe would
// not read. `message` is an upgraded net or solver, without `layers`.
std::vector<Problem> FindNotStock(const google::protobuf::Message& message,
                                  const SourceMap& source);

// Returns a sentence naming the layers whose types stock Caffe lacks; empty if there are none.
std::string DescribeLayersNotStock(const NetParameter& net);

}  // namespace crema
