#include "plan/plan.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>
#include <string_view>

#include "core/strings.h"
#include "plan/graph_capture_support.h"

namespace crema {

int Plan::FindValue(const std::string& blob) const {
  for (size_t v = values.size(); v-- > 0;) {
    if (values[v].name != blob) continue;
    // Users do not see a reordered copy for a layer that takes another format.
    const PlannedLayer& producer = layers[static_cast<size_t>(values[v].producer)];
    const bool copy = values[v].spec.format != MemoryFormat{} && producer.type->name == "Reorder";
    return copy ? producer.inputs[0] : static_cast<int>(v);
  }
  return -1;
}

int Plan::FindFirstValue(const std::string& blob) const {
  const auto found = std::ranges::find(values, blob, &PlannedValue::name);
  return found == values.end() ? -1 : static_cast<int>(std::distance(values.begin(), found));
}

int64_t Plan::ParameterCount() const {
  int64_t count = 0;
  for (size_t s = 0; s < parameters.size(); ++s) {
    if (parameters[s].owner == static_cast<int>(s)) count += parameters[s].shape.count();
  }
  return count;
}

namespace {

std::string Row(const std::string& name, const std::string& type, const std::string& shape,
                const std::string& parameters, const std::string& bytes,
                const std::string& implementation) {
  char line[512];
  std::snprintf(line, sizeof(line), "  %-20.60s %-18.40s %-24.80s %12.20s %10.20s  %.60s",
                name.c_str(), type.c_str(), shape.c_str(), parameters.c_str(), bytes.c_str(),
                implementation.c_str());
  return std::string(line) + "\n";
}

std::string Kibibytes(int64_t bytes) { return StrCat((bytes + 1023) / 1024, " KiB"); }

// Returns, for example, "12 are nChw16c, 3 are nChw16c bf16", or an empty string if all are plain.
std::string DescribeFormats(const Plan& plan) {
  std::map<std::string, int> counts;
  for (const PlannedValue& value : plan.values) {
    if (value.spec.format != MemoryFormat{}) ++counts[ToString(value.spec.format)];
  }
  std::vector<std::string> texts;
  for (const auto& [format, count] : counts) texts.push_back(StrCat(count, " are ", format));
  return Join(texts, ", ");
}

// Returns the number of reorders and the layers that they connect.
std::string DescribeReorders(const Plan& plan) {
  std::string text;
  int count = 0;
  std::vector<const PlannedLayer*> reader(plan.values.size(), nullptr);
  for (const PlannedLayer& layer : plan.layers) {
    for (int v : layer.inputs) reader[static_cast<size_t>(v)] = &layer;
  }
  for (const PlannedLayer& layer : plan.layers) {
    if (layer.type->name != "Reorder" || layer.implementation == nullptr) continue;
    const PlannedValue& from = plan.values[static_cast<size_t>(layer.inputs[0])];
    const PlannedLayer* to = reader[static_cast<size_t>(layer.outputs[0])];
    text += StrCat("    ", plan.layers[static_cast<size_t>(from.producer)].name(), " gives ",
                   ToString(from.spec.format), ", ",
                   to == nullptr ? std::string("the user takes ") : to->name() + " takes ",
                   ToString(plan.values[static_cast<size_t>(layer.outputs[0])].spec.format), "\n");
    ++count;
  }
  const std::string formats = DescribeFormats(plan);
  if (formats.empty()) return "";
  return StrCat("  memory formats: of ", plan.values.size(), " values ", formats, "; ", count,
                count == 1 ? " reorder" : " reorders", "\n", text);
}

}  // namespace

std::string DescribePlan(const Plan& plan) {
  std::string text = Row("layer", "type", "output", "learned", "memory", "implementation");
  for (const PlannedLayer& layer : plan.layers) {
    std::string shapes;
    int64_t bytes = 0;
    for (size_t o = 0; o < layer.outputs.size(); ++o) {
      const PlannedValue& value = plan.values[static_cast<size_t>(layer.outputs[o])];
      shapes += (shapes.empty() ? "" : " ") + ToString(value.spec.shape);
      bytes += layer.LiesInInput() ? 0 : value.data.bytes;
    }
    int64_t parameters = 0;
    for (int s : layer.parameters) {
      const ParameterSlot& slot = plan.parameters[static_cast<size_t>(s)];
      parameters += slot.owner == s ? slot.shape.count() : 0;
    }
    const std::string implementation =
        layer.fusion.leader >= 0
            ? "in " + plan.layers[static_cast<size_t>(layer.fusion.leader)].name()
        : !layer.forward ? "view"
        : layer.implementation == nullptr
            ? "none"
            : layer.implementation->name + (layer.tuned ? ", tuned" : "");
    text +=
        Row(layer.name(), layer.type->name, shapes, std::to_string(parameters), Kibibytes(bytes),
            layer.concat_in_place != ConcatPlace::kNone ? "inputs are parts of it"
            : layer.in_place                            ? implementation + ", in place"
                                                        : implementation);
  }
  text += DescribeReorders(plan);
  text += StrCat("  learned elements: ", plan.ParameterCount(),
                 "; activations and gradients: ", Kibibytes(plan.arena_bytes), " (",
                 Kibibytes(plan.unshared_bytes),
                 " without sharing); scratch: ", Kibibytes(plan.scratch_bytes), "\n");
  if (plan.options.device.type == DeviceType::kCpu) return text;
  const std::string reason = WhyNoGraphCapture(plan);
  text += reason.empty() ? "  CUDA graphs: passes after the data layers are launched as one\n"
                         : StrCat("  CUDA graphs: none, ", reason, "\n");
  return text;
}

}  // namespace crema
