#include "plan/memory/liveness.h"

#include <algorithm>
#include <set>
#include <utility>

#include "plan/memory/alias_sets.h"
#include "plan/memory/concat_in_place.h"
#include "plan/memory/memory_planner.h"
#include "plan/memory/recompute.h"

namespace crema {
namespace {

bool At(const std::vector<bool>& flags, int i) {
  return static_cast<size_t>(i) < flags.size() && flags[static_cast<size_t>(i)];
}

// An id for the memory of each value's data, and another, after all of the former, for its data if
// the backward pass recomputes it.
class Placer {
 public:
  explicit Placer(Plan* plan)
      : plan_(*plan),
        timeline_(*plan),
        data_(2 * plan->values.size()),
        gradients_(plan->values.size()),
        end_(timeline_.end()) {
    readers_.resize(plan->values.size());
    for (size_t n = 0; n < plan->layers.size(); ++n) {
      const std::vector<int>& inputs = plan->layers[n].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        readers_[Index(inputs[i])].push_back({static_cast<int>(n), static_cast<int>(i)});
      }
    }
  }

  const std::vector<BufferRequest>& FindLifetimes() {
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      const int value = static_cast<int>(v);
      plan_.values[v].sub_view_of = -1;
      data_.NeedsOf(value) = {.last_read = LastRead(value),
                              .live_to_end = IsSetFromOutside(value) || readers_[v].empty(),
                              .bytes = StoredBytes(plan_.values[v].spec)};
      data_.NeedsOf(Again(value)) = {.last_read = LastReadAgain(value)};
    }
    for (size_t n = 0; n < plan_.layers.size(); ++n) {
      plan_.layers[n].runs_again = timeline_.Before(static_cast<int>(n));
      ShareMemory(static_cast<int>(n));
      ShareMemoryAgain(static_cast<int>(n));
    }
    FindBufferOwners();
    AddDataRequests();
    AddRequestsAgain();
    AddGradientRequests();
    AddSavedRequests();
    return requests_;
  }

  void Place() {
    const Placement placement = PlaceBuffers(FindLifetimes());
    for (const Placed& place : slots_) {
      place.slot->offset = placement.offsets[place.request] + place.offset;
    }
    plan_.arena_bytes = placement.arena_bytes;
    plan_.unshared_bytes = 0;
    for (const BufferRequest& request : requests_) plan_.unshared_bytes += request.bytes;
  }

 private:
  struct Reader {
    int layer;
    int input;
  };
  struct Placed {
    ArenaSlot* slot;
    size_t request;  // that holds it
    int64_t offset = 0;
  };

  static size_t Index(int i) { return static_cast<size_t>(i); }
  const PlannedLayer& LayerOf(int n) const { return plan_.layers[Index(n)]; }
  int BackwardStep(int n) const { return timeline_.Backward(n); }
  int Again(int v) const { return v + static_cast<int>(plan_.values.size()); }
  // Returns the id of the data that the backward pass reads.
  int Late(int v) const { return timeline_.MadeAgain(v) < 0 ? v : Again(v); }

  // Returns true for values that a user sets. These do not share memory.
  bool IsSetFromOutside(int v) const {
    return LayerOf(plan_.values[Index(v)].producer).inputs.empty();
  }

  // External buffers use no arena memory, nor do the values inside them.
  void FindBufferOwners() {
    buffer_owner_.assign(2 * plan_.values.size(), -1);
    for (const PlannedLayer& layer : plan_.layers) {
      for (size_t o = 0; o < layer.outputs.size(); ++o) {
        if (!At(layer.info.external_output, static_cast<int>(o))) continue;
        buffer_owner_[Index(data_.Find(layer.outputs[o]))] = layer.outputs[o];
      }
    }
  }

  void ShareMemory(int n) {
    PlannedLayer& layer = plan_.layers[Index(n)];
    layer.in_place = false;
    layer.concat_in_place = ConcatPlace::kNone;
    if (layer.inputs.empty() || layer.outputs.empty()) return;
    const int input = layer.inputs[0];
    const int output = layer.outputs[0];
    if (layer.info.view || layer.info.share) {
      for (int v : layer.outputs) data_.Join(input, v);
      if (layer.info.view && layer.backward) gradients_.Join(input, output);
      layer.forward = false;
      return;
    }
    if (layer.can_concat_in_place) {
      ConcatInPlace(n);
    } else if (layer.info.contiguous_concat &&
               plan_.values[Index(output)].spec.format.layout != Layout::kNHWC) {
      PlaceInputsInOutput(n);
    }
    if (GivesAddedGradientInPlace(layer)) {
      gradients_.Join(layer.inputs[layer.OwnInputs()], output);
    }
    if (!layer.info.in_place) return;
    const bool asked = plan_.values[Index(input)].name == plan_.values[Index(output)].name;
    if (!asked && !plan_.options.passes.share_memory) return;
    if (IsDeadAfter(n, layer.inputs)) {
      data_.Join(input, output);
      layer.in_place = true;
    }
    // Each gradient has one writer and one reader, so these may share; with several inputs the
    // first gradient would overwrite what the others are computed from.
    if (layer.inputs.size() == 1 && layer.backward) gradients_.Join(input, output);
  }

  // All implementations that fuse in training allow this: see fuse.h.
  bool GivesAddedGradientInPlace(const PlannedLayer& layer) const {
    return layer.fusion.extra_inputs == 1 && layer.backward && layer.to_input[layer.OwnInputs()] &&
           plan_.options.passes.share_memory;
  }

  // The inputs lie in the output, unless another layer places them elsewhere or reads them later:
  // so a session may still use other shapes, for which it first copies them away. Backward may read
  // them late.
  void PlaceInputsInOutput(int n) {
    PlannedLayer& layer = plan_.layers[Index(n)];
    if (plan_.options.backward || !plan_.options.passes.share_memory) return;
    std::set<int> classes;
    int64_t offset = 0;
    for (int v : layer.inputs) {
      const int64_t bytes = StoredBytes(plan_.values[Index(v)].spec);
      const AliasSets::Needs& needs = data_.NeedsOf(v);
      const bool alone = classes.insert(data_.Find(v)).second && needs.bytes == bytes;
      if (!alone || needs.live_to_end || needs.last_read > n || offset % 64 != 0) return;
      offset += bytes;
    }
    if (offset != StoredBytes(plan_.values[Index(layer.outputs[0])].spec)) return;
    data_.Join(layer.inputs[0], layer.outputs[0]);
    offset = 0;
    for (int v : layer.inputs) {
      if (v != layer.inputs[0]) data_.Join(layer.outputs[0], v, offset);
      offset += StoredBytes(plan_.values[Index(v)].spec);
    }
    layer.concat_in_place = ConcatPlace::kContiguous;
    layer.in_place = true;
  }

  // Places inputs in the output image by image, forward and backward. A session with another shape
  // allocates separate memory for the inputs, so later layers may read them.
  void ConcatInPlace(int n) {
    PlannedLayer& layer = plan_.layers[Index(n)];
    if (layer.recompute) return;
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      if (!IsPlaceable(layer.inputs[i], layer.to_input[i])) return;
    }
    const int64_t images = plan_.values[Index(layer.outputs[0])].spec.shape[0];
    int64_t offset = 0;
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      const int v = layer.inputs[i];
      data_.Join(layer.outputs[0], v, offset);
      if (layer.to_input[i]) gradients_.Join(layer.outputs[0], v, offset);
      offset += StoredBytes(plan_.values[Index(v)].spec) / images;
      for (int name : NamesOf(plan_, v)) plan_.values[Index(name)].sub_view_of = v;
    }
    layer.concat_in_place = ConcatPlace::kStrided;
    layer.in_place = true;
  }

  // Returns true if neither the value nor its gradient shares memory, and it is written once.
  bool IsPlaceable(int v, bool with_gradient) {
    const int written = NamesOf(plan_, v).back();
    const PlannedLayer& maker = LayerOf(plan_.values[Index(written)].producer);
    return !maker.recompute &&
           (maker.concat_in_place == ConcatPlace::kStrided) == maker.can_concat_in_place &&
           data_.Find(v) == written && (!with_gradient || gradients_.Find(v) == written);
  }

  // Shares memory of the data that the backward pass recomputes.
  void ShareMemoryAgain(int n) {
    const PlannedLayer& layer = plan_.layers[Index(n)];
    if (layer.info.view || layer.info.share) {
      if (timeline_.MadeAgain(layer.inputs[0]) < 0) return;
      for (int v : layer.outputs) data_.Join(Again(layer.inputs[0]), Again(v));
      return;
    }
    const int step = timeline_.Again(n);
    if (step < 0 || !layer.info.in_place) return;
    std::vector<int> inputs;
    for (int v : layer.inputs) inputs.push_back(Late(v));
    if (IsDeadAfter(step, inputs)) data_.Join(inputs[0], Again(layer.outputs[0]));
  }

  // Returns true if no step after `step`, which overwrites the first of these inputs, reads its
  // memory.
  bool IsDeadAfter(int step, const std::vector<int>& inputs) {
    const int mine = data_.Find(inputs[0]);
    for (size_t i = 1; i < inputs.size(); ++i) {
      if (data_.Find(inputs[i]) == mine) return false;
    }
    const AliasSets::Needs& needs = data_.NeedsOf(mine);
    return !needs.live_to_end && needs.last_read <= step;
  }

  // Returns the last step that reads the data of this value, or the step of its producer.
  int LastRead(int v) const {
    int last = plan_.values[Index(v)].producer;
    for (const Reader& reader : readers_[Index(v)]) last = std::max(last, reader.layer);
    return timeline_.MadeAgain(v) < 0 ? std::max(last, LastReadInBackward(v)) : last;
  }

  int LastReadAgain(int v) const {
    const int made = timeline_.MadeAgain(v);
    return made < 0 ? -1 : std::max(made, LastReadInBackward(v));
  }

  // Returns the last read by backward steps and by layers that run again. -1 means none.
  int LastReadInBackward(int v) const {
    const PlannedValue& value = plan_.values[Index(v)];
    const PlannedLayer& producer = LayerOf(value.producer);
    int last = -1;
    for (size_t o = 0; o < producer.outputs.size(); ++o) {
      if (producer.outputs[o] == v && producer.backward &&
          At(producer.info.backward_reads_output, static_cast<int>(o))) {
        last = BackwardStep(value.producer);
      }
    }
    for (const Reader& reader : readers_[Index(v)]) {
      const PlannedLayer& layer = LayerOf(reader.layer);
      last = std::max(last, timeline_.Again(reader.layer));
      if (layer.backward && At(layer.info.backward_reads_input, reader.input)) {
        last = std::max(last, BackwardStep(reader.layer));
      }
    }
    return last;
  }

  // Returns the bytes between images of a sub-view of `root`, or 0 if v is no sub-view.
  int64_t ImageStride(int v, int root) const {
    if (plan_.values[Index(v)].sub_view_of < 0) return 0;
    const BlobSpec& whole = plan_.values[Index(root)].spec;
    return StoredBytes(whole) / whole.shape[0];
  }

  BufferRequest& RequestOf(int root, std::vector<int>* of_root) {
    int& request = (*of_root)[Index(root)];
    if (request < 0) {
      request = static_cast<int>(requests_.size());
      requests_.push_back({.bytes = 0, .first = end_, .last = 0});
    }
    return requests_[Index(request)];
  }

  void Extend(BufferRequest* request, int64_t bytes, int first, int last) const {
    const bool keep = !plan_.options.passes.share_memory;
    request->bytes = std::max(request->bytes, bytes);
    request->first = std::min(request->first, keep ? 0 : first);
    request->last = std::max(request->last, keep ? end_ : last);
  }

  void AddDataRequests() {
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      PlannedValue& value = plan_.values[v];
      const int id = static_cast<int>(v);
      const int root = data_.Find(id);
      value.data.bytes = StoredBytes(value.spec);
      if (buffer_owner_[Index(root)] >= 0) {
        value.data = {
            .offset = 0, .bytes = value.data.bytes, .buffer_owner = buffer_owner_[Index(root)]};
        continue;
      }
      const bool outside = IsSetFromOutside(id);
      const int last = outside || readers_[v].empty() ? end_ : LastRead(id);
      const int64_t offset = data_.OffsetOf(id);
      value.data.image_stride = ImageStride(id, root);
      Extend(&RequestOf(root, &data_requests_), offset + StoredBytes(value.spec),
             outside ? 0 : value.producer, last);
      slots_.push_back({&value.data, Index(data_requests_[Index(root)]), offset});
    }
  }

  void AddRequestsAgain() {
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      PlannedValue& value = plan_.values[v];
      value.again = {};
      const int made = timeline_.MadeAgain(static_cast<int>(v));
      if (made < 0) continue;
      const int root = data_.Find(Again(static_cast<int>(v)));
      Extend(&RequestOf(root, &data_requests_), StoredBytes(value.spec), made,
             LastReadAgain(static_cast<int>(v)));
      value.again.bytes = StoredBytes(value.spec);
      slots_.push_back({&value.again, Index(data_requests_[Index(root)])});
    }
  }

  void AddGradientRequests() {
    std::vector<int> of_root(plan_.values.size(), -1);
    for (size_t v = 0; v < plan_.values.size(); ++v) {
      PlannedValue& value = plan_.values[v];
      for (const Reader& reader : readers_[v]) {
        const PlannedLayer& layer = LayerOf(reader.layer);
        if (layer.backward && layer.to_input[Index(reader.input)]) value.gradient_written = true;
      }
      const bool read = LayerOf(value.producer).backward;
      if (!read && !value.gradient_written) continue;
      const int id = static_cast<int>(v);
      const int root = gradients_.Find(id);
      const int last = read ? BackwardStep(value.producer) : end_;
      const int first = value.gradient_written ? BackwardStep(readers_[v][0].layer)
                                               : BackwardStep(value.producer);
      const int64_t offset = gradients_.OffsetOf(id);
      Extend(&RequestOf(root, &of_root), offset + StoredBytes(value.spec), first, last);
      value.gradient.bytes = StoredBytes(value.spec);
      value.gradient.image_stride = ImageStride(id, root);
      slots_.push_back({&value.gradient, Index(of_root[Index(root)]), offset});
    }
  }

  void AddSavedRequests() {
    for (size_t n = 0; n < plan_.layers.size(); ++n) {
      PlannedLayer& layer = plan_.layers[n];
      layer.saved.resize(layer.backward ? layer.info.saved.size() : 0);
      for (size_t i = 0; i < layer.saved.size(); ++i) {
        layer.saved[i].bytes = StoredBytes(layer.info.saved[i]);
        slots_.push_back({&layer.saved[i], requests_.size()});
        const int step = static_cast<int>(n);
        const int again = timeline_.Again(step);
        requests_.push_back({layer.saved[i].bytes, again < 0 ? step : again, BackwardStep(step)});
      }
    }
  }

  Plan& plan_;
  Timeline timeline_;
  AliasSets data_;
  AliasSets gradients_;
  int end_;
  std::vector<std::vector<Reader>> readers_;                                        // by value
  std::vector<int> data_requests_ = std::vector<int>(2 * plan_.values.size(), -1);  // by root
  std::vector<int> buffer_owner_;  // by root: the value whose layer owns the external buffer
  std::vector<BufferRequest> requests_;
  std::vector<Placed> slots_;
};

}  // namespace

void PlaceMemory(Plan* plan) { Placer(plan).Place(); }

std::vector<BufferRequest> FindLifetimes(Plan* plan) { return Placer(plan).FindLifetimes(); }

}  // namespace crema
