#include "plan/summary.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/dtype.h"
#include "crema.pb.h"
#include "graph/replace_sources.h"

namespace crema {
namespace {

LayerSummary OfLayer(const Plan& plan, const PlannedLayer& layer) {
  LayerSummary summary{.name = layer.name(), .type = layer.type->name, .outputs = {}};
  summary.macs = layer.info.macs;
  for (size_t o = 0; o < layer.outputs.size(); ++o) {
    const BlobSpec& spec = plan.values[static_cast<size_t>(layer.outputs[o])].spec;
    summary.outputs.push_back(spec.shape);
    if (layer.LiesInInput()) continue;
    summary.activation_bytes += StoredBytes(spec);
  }
  for (int s : layer.parameters) {
    const ParameterSlot& slot = plan.parameters[static_cast<size_t>(s)];
    if (slot.owner != s) continue;
    (slot.statistic ? summary.statistics : summary.parameters) += slot.shape.count();
  }
  return summary;
}

int64_t ReadAheadBytes(const Plan& plan, const PlannedLayer& layer) {
  int64_t batch = 0;
  for (int v : layer.outputs) batch += StoredBytes(plan.values[static_cast<size_t>(v)].spec);
  // With external buffers the net holds one more batch. An input that represents it has arena
  // memory.
  const bool external =
      std::ranges::find(layer.info.external_output, true) != layer.info.external_output.end();
  return batch * (int64_t{ReadAheadDepth(*layer.type, layer.layer->param())} + (external ? 1 : 0));
}

// Measured on GoogLeNet and ResNet-50, because oneDNN does not report it (bench/results/memory.md).
constexpr int64_t kPrimitiveBytes = 90 << 10;

int64_t PrimitiveBytes(const PlannedLayer& layer) {
  if (layer.implementation == nullptr || !layer.implementation->name.starts_with("onednn"))
    return 0;
  return (layer.backward ? 3 : 1) * kPrimitiveBytes;  // gradients of inputs, and of weights
}

}  // namespace

NetSummary Summarize(const Plan& plan) {
  NetSummary net;
  std::set<std::string> written;
  for (const LayerParameter& layer : plan.written.layer()) written.insert(layer.name());
  for (const PlannedLayer& layer : plan.layers) {
    // Layers inserted by the planner are not counted: Splits cost nothing, the others are in the
    // arena.
    const std::string& type = layer.type->name;
    const bool own = type != "Reorder" && type != "PixelsToFloat" && !layer.info.share;
    if (!own && !written.contains(layer.name())) continue;
    net.layers.push_back(OfLayer(plan, layer));
    const LayerSummary& added = net.layers.back();
    net.total.parameters += added.parameters;
    net.total.statistics += added.statistics;
    net.total.macs += added.macs;
    net.total.activation_bytes += added.activation_bytes;
  }
  const auto size = static_cast<int64_t>(SizeOf(plan.options.dtype));
  net.weight_bytes = (net.total.parameters + net.total.statistics) * size;
  for (const ParameterSlot& slot : plan.parameters) {
    const bool owns = &slot - plan.parameters.data() == slot.owner;
    if (owns && slot.wants_gradient) net.gradient_bytes += slot.shape.count() * size;
  }
  for (const PlannedLayer& layer : plan.layers) {
    net.read_ahead_bytes += ReadAheadBytes(plan, layer);
    net.primitive_bytes += PrimitiveBytes(layer);
    for (int again : layer.runs_again) {
      ++net.recomputed;
      net.recomputed_macs += plan.layers[static_cast<size_t>(again)].info.macs;
    }
  }
  net.arena_bytes = plan.arena_bytes;
  net.scratch_bytes = plan.scratch_bytes;
  net.packed_bytes = plan.state_bytes;
  net.peak_bytes = net.weight_bytes + net.gradient_bytes + net.arena_bytes + net.scratch_bytes +
                   net.packed_bytes + net.primitive_bytes + net.read_ahead_bytes;
  return net;
}

}  // namespace crema
