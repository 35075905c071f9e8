#include "plan/memory/concat_in_place.h"

#include <algorithm>
#include <cstdint>

#include "graph/registry.h"
#include "plan/layer_query.h"

namespace crema {
namespace {

size_t Index(int i) { return static_cast<size_t>(i); }

class Marker {
 public:
  explicit Marker(Plan* plan) : plan_(*plan), readers_(plan->values.size(), 0) {
    for (const PlannedLayer& layer : plan_.layers) {
      for (int v : layer.inputs) ++readers_[Index(v)];
    }
  }

  // Starts with the last layer: its placement determines the stride of the concats inside it.
  void Run() {
    for (size_t n = plan_.layers.size(); n-- > 0;) {
      PlannedLayer& layer = plan_.layers[n];
      if (layer.can_concat_in_place || !layer.info.strided_concat || layer.info.view) continue;
      const PlannedValue& output = plan_.values[Index(layer.outputs[0])];
      if (!IsBlockedBatch(output.spec)) continue;
      // One image without a backward pass can be concatenated in place with any implementation
      // (LayerInfo::contiguous_concat).
      if (output.spec.shape[0] == 1 && !plan_.options.backward) continue;
      const int64_t stride = ImageOf(output.spec);
      if (CanWriteInputs(layer, stride)) Mark(&layer, stride);
    }
  }

 private:
  static bool IsBlockedBatch(const BlobSpec& spec) {
    return spec.format.layout == Layout::kBlocked && spec.shape.axes() == 4 &&
           spec.shape.count() > 0;
  }
  static int64_t ImageOf(const BlobSpec& spec) { return StoredCount(spec) / spec.shape[0]; }

  bool CanWriteInputs(const PlannedLayer& layer, int64_t stride) const {
    return std::ranges::all_of(layer.inputs, [&](int v) { return CanWrite(v, stride); });
  }

  bool CanWrite(int v, int64_t stride) const {
    const std::vector<int> names = NamesOf(plan_, v);
    const bool alone = std::ranges::all_of(names, [&](int name) {
      return readers_[Index(name)] == 1 && plan_.values[Index(name)].loss_weight == 0;
    });
    const BlobSpec& spec = plan_.values[Index(v)].spec;
    if (!alone || !IsBlockedBatch(spec) || spec.shape[1] % ChannelBlock() != 0) return false;
    const PlannedLayer& maker = plan_.layers[Index(plan_.values[Index(names.back())].producer)];
    if (maker.outputs.size() != 1 || maker.inputs.empty()) return false;
    if (maker.info.strided_concat) return CanWriteInputs(maker, stride);
    if (maker.implementation == nullptr || !maker.implementation->strided_output) return false;
    return WithQuery(plan_, maker, stride,
                     [&](const OpDesc& query) { return maker.implementation->Accepts(query).yes; });
  }

  void Mark(PlannedLayer* layer, int64_t stride) {
    layer->can_concat_in_place = true;
    for (int v : layer->inputs) {
      const int written = NamesOf(plan_, v).back();
      PlannedLayer& maker = plan_.layers[Index(plan_.values[Index(written)].producer)];
      if (maker.info.strided_concat) {
        Mark(&maker, stride);
      } else {
        BookScratch(&maker, stride);
      }
    }
  }

  // Reserves enough scratch for dense and for strided output.
  void BookScratch(PlannedLayer* layer, int64_t stride) {
    WithQuery(plan_, *layer, stride, [&](const OpDesc& query) {
      const Needs needs = layer->implementation->NeedsOf(query);
      Needs& booked = layer->needs;
      booked.forward_scratch = std::max(booked.forward_scratch, needs.forward_scratch);
      booked.backward_scratch = std::max(booked.backward_scratch, needs.backward_scratch);
      return 0;
    });
  }

  Plan& plan_;
  std::vector<int> readers_;  // by value
};

}  // namespace

void MarkConcatsInPlace(Plan* plan) {
  if (ChannelBlock() == 0 || !plan->options.passes.share_memory) return;
  Marker(plan).Run();
}

std::vector<int> NamesOf(const Plan& plan, int value) {
  std::vector<int> names = {value};
  while (true) {
    const PlannedLayer& layer = plan.layers[Index(plan.values[Index(value)].producer)];
    if (!layer.info.view) return names;
    const BlobSpec& to = plan.values[Index(value)].spec;
    value = layer.inputs[0];
    const BlobSpec& from = plan.values[Index(value)].spec;
    if (from.shape != to.shape || from.format != to.format) return names;
    names.push_back(value);
  }
}

}  // namespace crema
