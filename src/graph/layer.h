// The contract between layers and everything else. docs/adding_a_layer.md has a worked example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/exec_context.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "graph/schema.h"

namespace crema {

// The filler of a blob, shared by copies. Thread safety: const.
class Filler {
 public:
  Filler();                              // zeros
  Filler(const FillerParameter& param);  // NOLINT(google-explicit-constructor): its value
  const FillerParameter& operator*() const { return *param_; }
  const FillerParameter* operator->() const { return param_.get(); }

 private:
  std::shared_ptr<const FillerParameter> param_;
};

// A parameter, stored in a caffemodel.
struct ParameterInfo {
  std::string role;  // "weight", "bias"
  Shape shape;
  Filler filler = {};
  // Running statistics: set by Forward, not by a solver. No gradient, lr_mult 0.
  bool statistic = false;
};

// Arguments of Infer. Thread safety: const.
struct InferContext {
  Phase phase = Phase{};  // TRAIN
  std::span<const BlobSpec> inputs;
  size_t output_count = 0;
  DType dtype = DType::kF32;  // element type of the net
  int rank = 0;               // of this process in the training world
  int world = 1;
};

// The set of input elements that an output element depends on. Each kind includes those before it.
// Parameters do not matter.
enum class Reach : uint8_t {
  kAll,  // any
  // Those of the same sample. Axis 0 of all inputs and outputs is the batch, and all samples are
  // computed in the same way.
  kSample,
  // Those at the same index on every axis: inputs and outputs have one shape. All elements of a
  // channel (axis 1) are computed in the same way.
  kPlace,
  kElement,  // the same, and all elements are computed in the same way
};

// Returns the reach of a layer that mixes the elements of this axis and of those after it.
inline Reach ReachFromAxis(int axis) { return axis > 0 ? Reach::kSample : Reach::kAll; }

// Result of Infer: everything that the planner needs to know. The generic checker computes the
// facts from `reach` to `moves_only` on each sample, and refuses a missing claim as well as a false
// one.
struct LayerInfo {
  std::vector<BlobSpec> outputs;
  std::vector<ParameterInfo> parameters;
  std::vector<BlobSpec> saved;  // written by Forward, read by Backward (masks, argmax)

  // Tensors that Backward reads. It gets an empty view of those that are not declared here.
  std::vector<bool> backward_reads_input;   // by input; absent entries are false
  std::vector<bool> backward_reads_output;  // by output; absent entries are false

  // Inputs that never receive a gradient (labels). Absent entries: they do.
  std::vector<bool> gradient_forbidden;

  // For a layer without inputs, kSample means that its outputs are batches that a program sets.
  Reach reach = Reach::kAll;
  // Inputs that `reach` does not cover: each sample depends on all of them. Absent entries: no.
  std::vector<bool> shared_inputs;
  // Outputs depend on the shapes of inputs and on parameters only, and not on their elements.
  bool constant = false;
  // Each element of an output is an element of an input or a constant of the layer, unchanged.
  bool moves_only = false;

  // Output 0 may lie where input 0 lies, and the gradient of input 0 where that of output 0 lies.
  bool in_place = false;
  // Output 0 is input 0 under another shape: neither Forward nor Backward is called.
  bool view = false;
  // Every output is a read-only view of input 0 (Split): Forward is not called.
  bool share = false;
  // Output 0 is the concatenation of the inputs in memory, each with whole blocks of channels if it
  // is blocked. Forward is not called if they lie there already.
  bool contiguous_concat = false;
  // The same for each image (axis 0): the inputs are ranges of the channels of output 0.
  bool strided_concat = false;
  // Its blobs may all have any other layout, the same for each, if their channels fill whole
  // blocks: it works on elements or on whole channels, in any order.
  bool any_format = false;
  // `outputs` are the largest possible shapes; Forward sets the actual ones
  // (ForwardArgs::output_shapes). Infer of the following layers is called again when they change.
  bool dynamic_outputs = false;
  // Outputs in external buffers, which the layer owns (a prefetched batch), instead of the arena,
  // by output; absent entries are false. For layers without inputs.
  std::vector<bool> external_output;

  int64_t macs = 0;  // multiply-adds of matrix products in one forward pass
};

// Mutable state of one layer in one session, such as a data reader. Made by Layer::MakeState.
// Thread safety: one thread at a time.
class LayerSessionState {
 public:
  virtual ~LayerSessionState() = default;
  // Saves and restores the position in the data set, for snapshots. The defaults do nothing.
  virtual void Save(LayerState*) const {}
  virtual void Restore(const LayerState&) {}
  // Returns true if Save gives all that later batches depend on: `position`, a number of samples,
  // which a batch increases by its size. Others can then start at any batch.
  virtual bool IsPosition() const { return false; }
  // Returns the number of samples in one pass over the data set; 0: no end, or no data set.
  virtual int64_t EpochSize() const { return 0; }
  // Returns the name (a key, a path) of sample `index` of the last batch, for messages; empty:
  // none.
  virtual std::string SampleName(int64_t /*index*/) const { return {}; }
  // Returns the seconds that Forward has waited for data so far.
  virtual double WaitedSeconds() const { return 0; }
};

// State of an implementation for one layer of one session: primitives of a library, packed weights.
// Made by Implementation::MakeState. Thread safety: one thread at a time.
class ImplementationState {
 public:
  virtual ~ImplementationState() = default;
};

class Layer;

struct ForwardArgs {
  ExecContext& context;
  Phase phase;
  uint64_t layer_id;  // HashName(layer name): the random stream of this layer
  std::span<const ConstTensorView> inputs;
  std::span<const TensorView> outputs;
  std::span<const ConstTensorView> parameters;
  std::span<const TensorView> saved;  // empty views when no backward pass will follow
  std::span<std::byte> scratch;       // as the implementation required; contents undefined
  LayerSessionState* state;           // null if MakeState returned none
  // Running statistics to update, by parameter, in the memory of `parameters`. Empty views: not a
  // statistic, or the weights of this session must not change.
  std::span<const TensorView> statistics = {};
  // By output, as planned. A layer with dynamic_outputs writes the shapes that it used, with at
  // most the planned number of elements.
  std::span<Shape> output_shapes = {};
  // By output: Forward sets the address of the external buffer (LayerInfo::external_output), which
  // following layers may overwrite until its next call. The view in `outputs` has no memory then.
  // Empty: zero-copy is off, write to `outputs`.
  std::span<std::byte*> external = {};
  ImplementationState* implementation_state = nullptr;  // null: it has no state
  // Parameters do not change in this session, so that packed weights may be cached.
  bool weights_fixed = false;
  std::span<const Layer* const> fused = {};  // OpDesc::fused
};

struct BackwardArgs {
  ExecContext& context;
  Phase phase;
  uint64_t layer_id;
  // An empty view, which still has the shape: not declared as read.
  std::span<const ConstTensorView> inputs;
  std::span<const ConstTensorView> outputs;
  std::span<const ConstTensorView> output_grads;
  std::span<const TensorView> input_grads;  // empty view: not needed. Overwritten, not added to
  std::span<const ConstTensorView> parameters;
  std::span<const TensorView> parameter_grads;  // empty view: not needed. Added to
  std::span<const ConstTensorView> saved;
  std::span<std::byte> scratch;
  LayerSessionState* state;
  ImplementationState* implementation_state = nullptr;
  std::span<const Layer* const> fused = {};  // OpDesc::fused
};

// One layer of one net: parameters and maths, no tensors, no state. Its LayerType makes it from a
// LayerParameter, which the constructor validates (throwing Error with where.field set to the path
// of the field below the layer, e.g. "relu_param.negative_slope"). Thread safety: const after
// construction; any number of sessions and threads.
class Layer {
 public:
  explicit Layer(const LayerParameter& param);
  virtual ~Layer();
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const LayerParameter& param() const { return *param_; }

  // Returns shapes and needs for these inputs. Throws kInvalidArgument if they do not fit. Called
  // during planning, and by a session when the shapes of inputs change; then only sizes may differ
  // from the earlier result.
  virtual LayerInfo Infer(const InferContext& context) const = 0;

  // The plain native CPU implementation, for f32 and f64: the fallback and the reference of all
  // other implementations. Backward is called only if some gradient is needed.
  virtual void Forward(const ForwardArgs& args) const = 0;
  virtual void Backward(const BackwardArgs& args) const;  // default: throws kUnsupported

  // Scratch bytes of the native implementation.
  virtual size_t ForwardScratch(const InferContext&, const LayerInfo&, int /*threads*/) const {
    return 0;
  }
  virtual size_t BackwardScratch(const InferContext&, const LayerInfo&, int /*threads*/) const {
    return 0;
  }

  virtual std::unique_ptr<LayerSessionState> MakeState(const ExecContext&, Phase) const {
    return nullptr;
  }

 private:
  const std::unique_ptr<const LayerParameter> param_;
};

// Throws kInvalidArgument about one field of a layer: `field` is the path below the layer.
[[noreturn]] void FailField(const Layer& layer, std::string field, std::string message);
// Throws kInvalidArgument about the inputs of a layer.
[[noreturn]] void FailInputs(const Layer& layer, std::string message);

}  // namespace crema
