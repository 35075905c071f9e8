// The plan of a net: all decisions made before it runs.
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
  // Value whose external buffer holds this one instead of the arena. -1 means none.
  int buffer_owner = -1;
  // Bytes from one image to the next if this is a sub-view of a larger value, else 0.
  int64_t image_stride = 0;
};

struct PlannedValue {
  std::string name;
  BlobSpec spec;
  float loss_weight = 0;
  int producer = -1;
  ArenaSlot data;
  ArenaSlot again;                // written here when its layer runs again for backward
  ArenaSlot gradient;             // none if unused
  bool gradient_written = false;  // by its reader; otherwise backward starts from loss_weight
  bool is_output = false;
  // For sub-views of one larger value: the value that represents all of them when a session
  // allocates separate memory for them, for shapes other than the planned ones. -1 means no sub-
  // view.
  int sub_view_of = -1;
};

// An implementation that was not chosen, with the reason.
struct SkippedImplementation {
  std::string implementation;
  std::string reason;
};

// Place of the inputs of a Concat inside its output (LayerInfo), so that nothing is copied.
enum class ConcatPlace : uint8_t {
  kNone,
  kContiguous,  // contiguous_concat; for the planned shapes
  // strided_concat: the inputs and their gradients are sub-views of the output; for the planned
  // shapes and any smaller number of images
  kStrided
};

// Work of other layers that an implementation does.
struct Fusion {
  std::vector<int> followers;        // layers that it computes too, in order
  std::vector<const Layer*> layers;  // the same, for OpDesc::fused
  size_t extra_inputs = 0;           // of followers, in `inputs` after those of the layer
  int leader = -1;  // the layer that computes this one, whose output is then a view; -1: none
};

struct PlannedLayer {
  std::shared_ptr<const Layer> layer;
  const LayerType* type = nullptr;
  LayerInfo info;
  std::vector<int> inputs;      // values
  std::vector<int> outputs;     // values
  std::vector<int> parameters;  // parameter slots of the plan
  const Implementation* implementation = nullptr;
  std::vector<SkippedImplementation> skipped;
  bool tuned = false;     // chosen by times of an ImplementationTimer
  bool fits = true;       // false: must not run (MakePlan, `before`)
  uint64_t layer_id = 0;  // random stream
  bool forward = true;    // false: outputs are views of the input
  bool backward = false;
  bool in_place = false;
  ConcatPlace concat_in_place = ConcatPlace::kNone;
  // The producers of its inputs can write into its output, image by image
  // (plan/memory/concat_in_place.h).
  bool can_concat_in_place = false;
  // Forward runs again just before backward, without updating running statistics, so neither
  // outputs nor saved tensors are kept. The first run has no memory for saved tensors.
  bool recompute = false;
  std::vector<int> runs_again;      // layers to run again before this backward, in order
  std::vector<bool> to_input;       // gradient needed, by input
  std::vector<bool> to_parameters;  // gradient needed, by parameter
  std::vector<ArenaSlot> saved;     // of the run that backward follows
  Needs needs;                      // of its implementation
  Fusion fusion;

  const std::string& name() const { return layer->param().name(); }
  // Returns the number of inputs without those of fused layers.
  size_t OwnInputs() const { return inputs.size() - fusion.extra_inputs; }
  // Returns true if its outputs alias input 0.
  bool LiesInInput() const { return !forward || in_place; }
};

inline bool WantsInputGradient(const PlannedLayer& layer) {
  return layer.backward &&
         std::find(layer.to_input.begin(), layer.to_input.end(), true) != layer.to_input.end();
}

// A parameter of one layer. Parameters that share a name have one owner.
struct ParameterSlot {
  int layer = -1;
  int index = 0;  // among the blobs of its layer
  std::string role;
  Shape shape;
  FillerParameter filler;
  std::string share_name;  // ParamSpec.name
  int owner = -1;          // slot; its own index if it is the owner
  float lr_mult = 1;       // of the owner after merging
  float decay_mult = 1;
  bool statistic = false;  // ParameterInfo::statistic
  bool wants_gradient = false;
};

// Optimization passes. Each can be disabled to measure its effect. PlanOptions::optimize = false
// disables all.
struct PlanPasses {
  bool upload_bytes = true;    // upload images to a GPU as bytes and convert them there
  bool move_strides = true;    // compute only the elements that strided convolutions read
  bool memory_formats = true;  // choose the layout and stored type of each blob by estimated time
  bool fuse = true;            // fuse following layers into an implementation
  bool share_memory = true;    // reuse memory of dead blobs; run layers in place
  bool optimized_implementations = true;  // implementations other than the native ones
};

struct PlanOptions {
  DType dtype = DType::kF32;
  Device device = {};
  int threads = 1;
  bool backward = true;  // plan a backward pass
  // Reuse memory of dead blobs and fuse layers. False keeps every named blob and gradient readable
  // after a run.
  bool optimize = true;
  int rank = 0;
  int world = 1;
  bool deterministic = false;  // same bits for any number of threads
  PlanPasses passes = {};
  // Measures layers that several implementations can compute. Null means estimates decide. Not used
  // by deterministic plans.
  std::shared_ptr<ImplementationTimer> implementation_timer = nullptr;
  Precision precision = FP32;  // for layers without one, if the net sets none either
  // On a GPU: the CPU computes layers without GPU code, on copies of their blobs. `summary --plan`
  // reports each. False makes such a layer an error.
  bool allow_cpu_layers = false;
  ProcessorFacts processor = {};
  // Names of the implementations that must compute these layers, by layer name. No other
  // implementation computes them and no other layer fuses them. Unknown layer names are errors.
  std::map<std::string, std::string> pinned = {};
};

inline bool IsPinned(const Layer& layer, const PlanOptions& options) {
  return options.pinned.contains(layer.param().name());
}

// Returns true if a plan with these options considers this implementation for the layer.
inline bool MayUse(const Implementation& implementation, const Layer& layer,
                   const PlanOptions& options) {
  if (implementation.device != options.device.type) return false;
  const auto pinned = options.pinned.find(layer.param().name());
  if (pinned != options.pinned.end()) return implementation.name == pinned->second;
  return options.passes.optimized_implementations || implementation.name == kNativeImplementation;
}

// Immutable after construction. Points into the registry used to make it, which must outlive it.
// Thread safety: any number of threads and sessions.
struct Plan {
  std::string name;
  NetState state;
  PlanOptions options;
  std::vector<PlannedLayer> layers;  // in running order
  std::vector<PlannedValue> values;
  std::vector<ParameterSlot> parameters;
  std::vector<int> outputs;    // values, ordered by name
  int64_t arena_bytes = 0;     // with reuse
  int64_t unshared_bytes = 0;  // without memory reuse
  int64_t scratch_bytes = 0;   // the largest of any layer
  int64_t state_bytes = 0;     // of all implementations
  NetParameter written;        // the net as a caffemodel holds it, without blobs

  // Returns the last value of that name, which is Caffe's blob of that name after a forward pass.
  // -1 means none.
  int FindValue(const std::string& blob) const;
  // Returns the first value of that name: the start of an in-place chain. Inputs are set and
  // gradients are read through this value.
  int FindFirstValue(const std::string& blob) const;
  int64_t ParameterCount() const;  // elements of owned parameters
};

// Plans a net for one state: builds the graph, runs the passes, infers shapes, chooses
// implementations and places every buffer. Throws Error with all problems found. Appends warnings.
// `before` is null, or a plan of the same net without optimizations and with other shapes of
// inputs: layers that do not accept the new ones keep their shapes, and must not be run.
std::shared_ptr<const Plan> MakePlan(const NetParameter& net, const SourceMap& source,
                                     const NetState& state, const Registry& registry,
                                     const PlanOptions& options, std::vector<Problem>* warnings,
                                     const Plan* before = nullptr);

// Returns one line for each layer (name, type, output shapes, learned elements, implementation),
// then the totals.
std::string DescribePlan(const Plan& plan);

}  // namespace crema
