#include "draw/layer_profile.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include "core/error.h"
#include "format/file.h"

namespace crema::tools {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

// Returns the member of an object; an empty value if it is missing.
Value Member(const Struct& object, const std::string& name) {
  const auto found = object.fields().find(name);
  return found == object.fields().end() ? Value() : found->second;
}

double Milliseconds(const Struct& layer, const std::string& pass) {
  return Member(Member(layer, pass).struct_value(), "median_ms").number_value();
}

}  // namespace

std::map<std::string, LayerTimes> ReadLayerTimes(const std::string& path) {
  Struct profile;
  const bool is_json = google::protobuf::util::JsonStringToMessage(ReadFile(path), &profile).ok();
  std::map<std::string, LayerTimes> times;
  if (is_json) {
    const Value layers = Member(profile, "layers");
    for (const Value& entry : layers.list_value().values()) {
      const Struct& layer = entry.struct_value();
      const std::string name = Member(layer, "name").string_value();
      if (name.empty() || !layer.fields().contains("forward")) continue;
      times[name] = {.forward_ms = Milliseconds(layer, "forward"),
                     .backward_ms = Milliseconds(layer, "backward"),
                     .share = Member(layer, "share").number_value()};
    }
  }
  if (times.empty()) {
    Fail(ErrorCode::kDataLoss,
         "has no times of layers; write it with: profile --model=NET --json > profile.json",
         {.file = path});
  }
  return times;
}

}  // namespace crema::tools
