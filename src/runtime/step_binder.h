// The arguments of each layer of a session, for the current shapes of its values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device_memory.h"
#include "core/device_queue.h"
#include "core/exec_context.h"
#include "core/tensor.h"
#include "graph/registry.h"
#include "plan/plan.h"
#include "runtime/session_parameters.h"
#include "runtime/session_values.h"

namespace crema {

// Transfers outputs of a source to a GPU while the GPU computes with the previous batch.
//
// The host fills one of kPlaces page-locked places while earlier ones are being transferred. They
// arrive in separate device memory, and each pass copies them to the inputs of its layers, so that
// the next transfer need not wait for that pass. The context must outlive it. Thread safety: one
// thread at a time.
class SourceTransfer {
 public:
  static constexpr size_t kPlaces = 2;

  explicit SourceTransfer(const ExecContext& context) : context_(context) {}

  // Makes room for outputs of these shapes; reallocates only if the memory is too small.
  void Reserve(std::span<const TensorView> outputs);
  // Sets `outputs` to host memory that may be written; waits if the place is still being read.
  void Next(std::span<TensorView> outputs);
  // Queues the copies of `outputs`, those of the last Next, to `place_of(output)`. Does not wait.
  void Send(std::span<const TensorView> outputs, const std::function<void*(size_t)>& place_of);

 private:
  struct Place {
    std::vector<Tensor> outputs;
    std::unique_ptr<DeviceEvent> sent;  // then it may be written again
  };

  const ExecContext& context_;
  Place places_[kPlaces];
  size_t place_ = 0;  // that of the last Next
  std::vector<Tensor> arrived_;
  std::unique_ptr<DeviceEvent> taken_;  // then arrived_ may be written again
};

// The state of one layer in a session and its arguments: views that are made once, and again if
// shapes change or external buffers move.
struct LayerStep {
  const LayerInfo* info = nullptr;      // of the plan, or own_info
  std::unique_ptr<LayerInfo> own_info;  // for shapes other than planned
  const Implementation* implementation = nullptr;
  size_t forward_scratch = 0;  // bytes
  size_t backward_scratch = 0;
  // The SessionValues::version of the arguments.
  uint64_t forward_version = 0;
  uint64_t recompute_version = 0;
  uint64_t backward_version = 0;
  bool concat_in_place = false;  // the inputs lie in the output: nothing to do

  std::vector<ConstTensorView> forward_inputs;
  std::vector<TensorView> forward_outputs;
  std::vector<Shape> output_shapes;  // set by a layer with dynamic outputs
  std::vector<std::byte*> external;  // by output; empty: the layer has no external buffers
  std::vector<ConstTensorView> parameters;
  std::vector<TensorView> statistics;
  std::vector<TensorView> saved;
  // For a layer that runs again in the backward pass.
  std::vector<ConstTensorView> again_inputs;
  std::vector<TensorView> again_outputs;
  std::vector<TensorView> again_saved;

  std::vector<ConstTensorView> backward_inputs;
  std::vector<ConstTensorView> backward_outputs;
  std::vector<ConstTensorView> output_grads;
  std::vector<TensorView> input_grads;
  std::vector<TensorView> parameter_grads;
  std::vector<ConstTensorView> saved_const;
  std::vector<TensorView> seeds;  // output gradients that start from a constant
  std::vector<float> seed_values;

  std::unique_ptr<LayerSessionState> state;
  std::unique_ptr<ImplementationState> implementation_state;
  std::unique_ptr<SourceTransfer> transfer;  // of a source, which runs on the host
  ByteMemory inputs_away;  // copies of inputs whose place in the output is for other shapes
};

// Makes the steps of all layers and updates them when the values change. Layers are indices into
// the plan. All arguments must outlive it. Thread safety: one thread at a time.
class StepBinder {
 public:
  // Makes the states of layers and implementations and allocates scratch memory.
  StepBinder(const Plan& plan, const ExecContext& context, SessionValues* values,
             const SessionParameters& parameters);

  size_t size() const { return steps_.size(); }
  LayerStep& step(size_t layer) { return steps_[layer]; }
  const LayerStep& step(size_t layer) const { return steps_[layer]; }
  // Return the step with arguments for the current shapes. If the shapes of inputs have changed,
  // ForwardStep infers those of the outputs, and chooses another implementation if needed; it
  // throws kInvalidArgument if the layer needs another plan, or more memory than planned and values
  // cannot grow.
  LayerStep& ForwardStep(size_t layer);
  LayerStep& RecomputeStep(size_t layer);
  LayerStep& BackwardStep(size_t layer);
  // Takes the external buffers that the layer has set, and rebinds the layers that use them.
  void TakeExternalBuffers(size_t layer);
  // Makes room for outputs of a layer with dynamic outputs that are larger than bound. Requires
  // that values can grow if there are any.
  void GrowOutputs(size_t layer, std::span<const Shape> shapes);
  // Scratch memory of the current step; a later ForwardStep may move it.
  std::byte* scratch() { return scratch_.data(); }

 private:
  const PlannedValue& Planned(int value) const { return plan_.values[static_cast<size_t>(value)]; }
  LayerStep MakeStep(const PlannedLayer& layer);
  void FindBufferReaders();
  void Rebind(size_t layer);
  void BindForward(const PlannedLayer& layer, LayerStep* step);
  void BindOutputs(const PlannedLayer& layer, LayerStep* step);
  void BindParameters(const PlannedLayer& layer, LayerStep* step);
  void BindRecompute(const PlannedLayer& layer, LayerStep* step);
  void BindBackward(const PlannedLayer& layer, LayerStep* step);
  void BindOutputGradients(const PlannedLayer& layer, LayerStep* step);
  void BindParameterGradients(const PlannedLayer& layer, LayerStep* step);
  void InferAgain(const PlannedLayer& layer, LayerStep* step);
  void CheckPlanned(const PlannedLayer& layer, LayerInfo* info) const;
  void ChooseImplementation(const PlannedLayer& layer, const OpDesc& query, LayerStep* step);
  void MakeImplementationState(const PlannedLayer& layer, LayerStep* step);
  void ReserveScratch(const OpDesc& query, LayerStep* step);
  std::vector<BlobSpec> OwnInputs(const PlannedLayer& layer) const;
  OpDesc QueryOf(const PlannedLayer& layer, const InferContext& context,
                 const LayerInfo& info) const;
  int64_t OutputStride(const PlannedLayer& layer) const;
  bool IsConcatInPlace(const PlannedLayer& layer) const;

  const Plan& plan_;
  const ExecContext& context_;
  SessionValues& values_;
  const SessionParameters& parameters_;
  ByteMemory scratch_;
  std::vector<LayerStep> steps_;                     // by layer
  std::vector<std::vector<size_t>> buffer_readers_;  // by value: layers that use its buffer
};

}  // namespace crema
