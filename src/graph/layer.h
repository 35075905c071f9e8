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
#include "crema.pb.h"

namespace crema {

// A blob that is learned and stored in a caffemodel.
struct LearnedBlob {
  std::string role;  // "weight", "bias"
  Shape shape;
  FillerParameter filler = {};
  // Set by Forward and not by a solver (running means): no gradient, lr_mult 0.
  bool statistic = false;
};

// What Infer is told. Thread safety: const.
struct InferContext {
  Phase phase = TRAIN;
  std::span<const BlobSpec> inputs;
  size_t output_count = 0;
  DType dtype = DType::kF32;  // element type of the net
  int rank = 0;               // of this process in the training world
  int world = 1;
};

// The elements of the inputs that an element of an output depends on. A layer of one kind is of
// those before it, too. The kinds say nothing of parameters.
enum class Reach : uint8_t {
  kAll,  // any
  // Those of the same sample. Axis 0 of all inputs and outputs is the batch, and all samples are
  // computed alike.
  kSample,
  // Those at the same index on every axis: all have one shape. All elements of a channel (axis 1)
  // are computed alike.
  kPlace,
  kElement,  // the same, and all elements are computed alike
};

// Of a layer that mixes the elements of this axis and of those after it.
inline Reach ReachFromAxis(int axis) { return axis > 0 ? Reach::kSample : Reach::kAll; }

// What Infer answers: everything the planner needs to know. The generic checker computes the facts
// from `reach` to `moves_only` on each sample, and refuses a missing claim as well as a false one.
struct LayerInfo {
  std::vector<BlobSpec> outputs;
  std::vector<LearnedBlob> learned;
  std::vector<BlobSpec> saved;  // written by Forward, read by Backward (masks, argmax)

  // What Backward reads; a tensor that is not declared here is handed over empty.
  std::vector<bool> backward_reads_input;   // by input; absent entries are false
  std::vector<bool> backward_reads_output;  // by output; absent entries are false

  // Inputs that never receive a gradient (labels). Absent entries: they do.
  std::vector<bool> gradient_forbidden;

  // Of a layer without inputs kSample says that its outputs are batches, which a program gives.
  Reach reach = Reach::kAll;
  // Inputs that `reach` does not speak of: each sample depends on all of them. Absent entries: no.
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
  // Output 0 is the inputs in memory, one behind the other, each with whole blocks of channels
  // where it has any: Forward is not called where they lie so already.
  bool contiguous_concat = false;
  // The same of each image (axis 0): the inputs are ranges of the channels of output 0.
  bool strided_concat = false;
  // Its blobs may all lie in another memory format, the same for each, as long as their channels
  // fill whole blocks: what it does goes by elements or by whole channels, in any order.
  bool any_format = false;
  // `outputs` are the largest extents there can be; Forward says how large they are this time
  // (ForwardArgs::output_shapes). Layers behind are asked again by Infer when that changes.
  bool dynamic_outputs = false;
  // Outputs that lie in memory of the layer's own (a batch that was read ahead) instead of the
  // arena, by output; absent entries are false. For layers without inputs.
  std::vector<bool> external_output;

  int64_t macs = 0;  // multiply-adds of products (not elementwise) of one forward pass, for tables
};

// Mutable state of one layer in one session, such as a data reader. Made by Layer::MakeState.
// Thread safety: one thread at a time.
class LayerSessionState {
 public:
  virtual ~LayerSessionState() = default;
  // Where the source stands, for snapshots; defaults say nothing and take nothing.
  virtual void Save(LayerState*) const {}
  virtual void Restore(const LayerState&) {}
  // Samples in one pass over the source; 0 when it has no end or is no source.
  virtual int64_t EpochSize() const { return 0; }
  // What the source calls sample `index` of the batch that Forward gave last: a key, a path; empty
  // when it has no name for it. For messages.
  virtual std::string SampleName(int64_t /*index*/) const { return {}; }
  // Seconds that Forward has spent so far waiting for its source.
  virtual double WaitedSeconds() const { return 0; }
};

// What an implementation keeps for one layer of one session: primitives of a library, weights
// as it likes them. Made by Implementation::make_state. Thread safety: one thread at a time.
class ImplementationState {
 public:
  virtual ~ImplementationState() = default;
};

struct ForwardArgs {
  ExecContext& context;
  Phase phase;
  uint64_t layer_id;  // HashName(layer name): the random stream of this layer
  std::span<const ConstTensorView> inputs;
  std::span<const TensorView> outputs;
  std::span<const ConstTensorView> learned;
  std::span<const TensorView> saved;  // empty views when no backward pass will follow
  std::span<std::byte> scratch;       // as booked by the implementation; contents undefined
  LayerSessionState* state;           // null when MakeState gave none
  // Statistics to update, by learned blob; empty views: not a statistic, or the weights of this
  // session may not change. They are the memory of `learned`.
  std::span<const TensorView> statistics = {};
  // By output, as planned. A layer that declared dynamic_outputs writes the extents that it used;
  // each output may not have more elements than planned.
  std::span<Shape> output_shapes = {};
  // By output: Forward puts the address of what it lends here (LayerInfo::external_output), and
  // leaves the memory alone until its next call; those behind may write to it. The view in
  // `outputs` has no memory then. Empty: nobody borrows, so that it writes to `outputs` as for any
  // other.
  std::span<std::byte*> external = {};
  ImplementationState* implementation_state =
      nullptr;  // null when the implementation has no make_state
  // Learned blobs are the same in every pass of this session: what is made of them may be kept.
  bool weights_fixed = false;
};

struct BackwardArgs {
  ExecContext& context;
  Phase phase;
  uint64_t layer_id;
  // An empty view, which still has the shape: not declared as read.
  std::span<const ConstTensorView> inputs;
  std::span<const ConstTensorView> outputs;
  std::span<const ConstTensorView> output_grads;
  std::span<const TensorView> input_grads;  // empty view: not wanted. Overwritten, not added to
  std::span<const ConstTensorView> learned;
  std::span<const TensorView> learned_grads;  // empty view: not wanted. Added to
  std::span<const ConstTensorView> saved;
  std::span<std::byte> scratch;
  LayerSessionState* state;
  ImplementationState* implementation_state = nullptr;
};

// One layer of one net: parameters and maths, no tensors, no state. Made by its LayerType from a
// LayerParameter, which it validates in its constructor (throwing Error with where.field set to the
// path of the field below the layer, e.g. "relu_param.negative_slope").
// Thread safety: const after construction; any number of sessions and threads.
class Layer {
 public:
  explicit Layer(const LayerParameter& param) : param_(param) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  const LayerParameter& param() const { return param_; }

  // Shapes and needs for these inputs. Throws kInvalidArgument when they do not fit. Called while
  // planning, and by a session when the extents of inputs change; everything but extents must then
  // stay as it was.
  virtual LayerInfo Infer(const InferContext& context) const = 0;

  // The plain native CPU implementation, for f32 and f64: the fallback and the oracle of all other
  // implementations. Backward is called only when some gradient is wanted.
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
  const LayerParameter param_;
};

// Throws kInvalidArgument about one field of a layer: `field` is the path below the layer.
[[noreturn]] void FailField(const Layer& layer, std::string field, std::string message);
// Throws kInvalidArgument about the inputs of a layer.
[[noreturn]] void FailInputs(const Layer& layer, std::string message);

}  // namespace crema
