// Everything that is decided before a net runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "crema.pb.h"
#include "graph/graph.h"
#include "graph/implementation.h"

namespace crema {

class ImplementationTimer;  // plan/implementation_timer.h

// A place in the arena; offset -1 means "none".
struct ArenaSlot {
  int64_t offset = -1;
  int64_t bytes = 0;
  // The value whose external buffer holds this one instead of the arena; -1: none.
  int buffer_owner = -1;
  // Bytes from one image to the next if this is a sub-view of a larger value; else 0.
  int64_t image_stride = 0;
};

struct PlannedValue {
  std::string name;
  BlobSpec spec;
  float loss_weight = 0;
  int producer = -1;
  ArenaSlot data;
  ArenaSlot again;                // where its layer writes it when it runs again for backward
  ArenaSlot gradient;             // none when nobody wants it
  bool has_gradient = true;       // false: a value of a norm fusion that needs none
  bool gradient_written = false;  // by its reader; otherwise backward starts from loss_weight
  bool is_output = false;
  // For sub-views of one larger value: the value that stands for all of them when a session gives
  // them memory of their own, for shapes other than the planned ones. -1: no sub-view.
  int sub_view_of = -1;
};

// An implementation that was not chosen, and why.
struct SkippedImplementation {
  std::string implementation;
  std::string reason;
};

struct PlannedLayer {
  std::shared_ptr<const Layer> layer;
  const LayerType* type = nullptr;
  LayerInfo info;
  std::vector<int> inputs;   // values
  std::vector<int> outputs;  // values
  std::vector<int> learned;  // learned slots of the plan
  const Implementation* implementation = nullptr;
  std::vector<SkippedImplementation> skipped;
  bool tuned = false;     // the implementation was chosen by what an ImplementationTimer measured
  uint64_t layer_id = 0;  // random stream
  bool forward = true;    // false: outputs are views of the input
  bool backward = false;
  bool in_place = false;
  // The inputs lie where the output has them (LayerInfo::contiguous_concat), for the planned
  // shapes.
  bool concat_in_place = false;
  // The producers of its inputs can write into its output, image by image
  // (plan/memory/concat_in_place.h).
  bool can_concat_in_place = false;
  // The inputs and their gradients are sub-views of its output (LayerInfo::strided_concat), for the
  // planned shapes and any smaller number of images.
  bool strided_concat_in_place = false;
  // Forward runs again just before backward, without updating running statistics, so that neither
  // outputs nor saved tensors are kept. The first run gets no memory for saved tensors.
  bool recompute = false;
  std::vector<int> runs_again;   // layers that do so just before the backward of this one, in order
  std::vector<bool> to_input;    // gradient wanted, by input
  std::vector<bool> to_learned;  // gradient wanted, by learned blob
  std::vector<ArenaSlot> saved;  // of the run that backward follows
  int64_t forward_scratch = 0;   // bytes
  int64_t backward_scratch = 0;
  int64_t state_bytes = 0;  // held by the implementation's ImplementationState
  // Following layers that its implementation computes too, in order. Their extra inputs come after
  // its own.
  std::vector<int> fused;
  std::vector<const Layer*> fused_layers;  // the same, for OpDesc
  int fused_into = -1;          // the layer that computes this one, whose output is then a view
  size_t extra_inputs = 0;      // of fused layers, in `inputs` behind its own
  NormFusion norm_fusion = {};  // with values behind all others of `inputs` and `outputs`

  const std::string& name() const { return layer->param().name(); }
  // Number of inputs and outputs without those of fused layers and norm fusions.
  size_t OwnInputs() const { return inputs.size() - extra_inputs - norm_fusion.inputs(); }
  size_t OwnOutputs() const { return outputs.size() - norm_fusion.outputs(); }
  // Returns true if that output aliases input 0, so that the layer does not write it.
  bool LiesInInput(size_t output) const {
    return !forward || in_place || (norm_fusion.emits_factors && output == 0);
  }
};

inline bool WantsInputGradient(const PlannedLayer& layer) {
  return layer.backward &&
         std::find(layer.to_input.begin(), layer.to_input.end(), true) != layer.to_input.end();
}

// A learned blob of one layer. Blobs that share a name have one owner.
struct LearnedSlot {
  int layer = -1;
  int index = 0;  // among the blobs of its layer
  std::string role;
  Shape shape;
  FillerParameter filler;
  std::string share_name;  // ParamSpec.name
  int owner = -1;          // slot; itself when it owns
  float lr_mult = 1;       // of the owner after merging
  float decay_mult = 1;
  bool statistic = false;  // LearnedBlob::statistic
  bool wants_gradient = false;
};

// Each can be left out, to find out what it does; PlanOptions::optimize off leaves out all.
struct PlanPasses {
  bool upload_bytes = true;     // images go up to a GPU as bytes and become numbers there
  bool fuse_relu = true;        // a ReLU becomes part of the layer before it
  bool move_strides = true;     // what only strided convolutions read is not computed in between
  bool memory_formats = true;   // blobs lie as the fastest implementations like them
  bool fuse = true;             // implementations do the work of the layers behind them
  bool fuse_batch_norm = true;  // convolutions measure and normalise for BatchNorm on a GPU
  bool share_memory = true;     // dead blobs give their memory to others; layers work in place
  bool optimized_implementations = true;  // implementations other than the native ones
};

struct PlanOptions {
  DType dtype = DType::kF32;
  Device device = {};
  int threads = 1;
  bool backward = true;  // plan a backward pass
  // Let blobs that are dead share memory and fuse what can be fused. Off: every named blob and
  // gradient can be looked at after a run.
  bool optimize = true;
  int rank = 0;
  int world = 1;
  bool deterministic =
      false;  // the same bits on any number of threads: no implementation that cannot
  PlanPasses passes = {};
  // Measures implementations where several can do a layer; null: estimates decide. Not
  // asked by deterministic plans.
  std::shared_ptr<ImplementationTimer> implementation_timer = nullptr;
  Precision precision = FP32;  // of layers that do not say one, where the net says none either
  // On a GPU: layers without code for it are computed by the CPU on copies of their blobs, each
  // said in `summary --plan`. Off: such a layer is an error.
  bool allow_cpu_layers = false;
  ProcessorFacts processor = {};
  // Names of the implementations that must compute these layers, by layer name: nothing else does,
  // and no other layer fuses them. Names of layers that the net does not have are errors.
  std::map<std::string, std::string> pinned = {};
};

inline bool IsPinned(const Layer& layer, const PlanOptions& options) {
  return options.pinned.contains(layer.param().name());
}

// Whether a plan of these options looks at that implementation of the layer at all.
inline bool MayUse(const Implementation& implementation, const Layer& layer,
                   const PlanOptions& options) {
  if (implementation.device != options.device.type) return false;
  const auto pinned = options.pinned.find(layer.param().name());
  if (pinned != options.pinned.end()) return implementation.name == pinned->second;
  return options.passes.optimized_implementations || implementation.name == kNativeImplementation;
}

// Immutable once made. Points into the registry that it was made with, which must live as long.
// Thread safety: any number of threads, any number of sessions.
struct Plan {
  std::string name;
  NetState state;
  PlanOptions options;
  std::vector<PlannedLayer> layers;  // in running order
  std::vector<PlannedValue> values;
  std::vector<LearnedSlot> learned;
  std::vector<int> outputs;    // values, ordered by name
  int64_t arena_bytes = 0;     // with reuse
  int64_t unshared_bytes = 0;  // what it would be without
  int64_t scratch_bytes = 0;   // the largest of any layer
  int64_t state_bytes = 0;     // of all implementations
  NetParameter written;        // the net as a caffemodel holds it, without blobs

  // The last value of that name, as Caffe's blob of that name after a forward pass; -1: none.
  int FindValue(const std::string& blob) const;
  // The first one: where an in-place chain starts. Inputs are set there, gradients are read there.
  int FindFirstValue(const std::string& blob) const;
  int64_t LearnedCount() const;  // elements of owned learned blobs
};

// Plans a net for one state: builds the graph, runs the passes, infers shapes, chooses
// implementations and places every buffer. Throws Error with all problems found. Warnings are
// appended.
std::shared_ptr<const Plan> MakePlan(const NetParameter& net, const SourceMap& source,
                                     const NetState& state, const Registry& registry,
                                     const PlanOptions& options, std::vector<Problem>* warnings);

// One line a layer: name, type, output shapes, learned elements, implementation; then totals.
std::string DescribePlan(const Plan& plan);

}  // namespace crema
