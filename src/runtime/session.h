// Runs a plan: its memory, its context and the state of its layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/exec_context.h"
#include "core/log.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "graph/layer.h"
#include "plan/plan.h"
#include "runtime/session_parameters.h"
#include "runtime/session_values.h"
#include "runtime/weights.h"

namespace crema {

class DevicePasses;
class PackedWeightCache;
class StepBinder;
struct LayerStep;

// Observes every layer that a session runs, to time it or to examine its outputs.
//
// `layer` is an index into the plan. The arguments are those of the layer: blobs may share memory
// with later ones, so values must be read during the call. Layers that do not run (views, splits)
// are not reported. An exception ends the pass as if the layer had thrown it; after a layer has
// thrown, its After... is not called. Thread safety: called on the thread of the session.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  virtual void BeforeForward(size_t /*layer*/, const ForwardArgs&) {}
  virtual void AfterForward(size_t /*layer*/, const ForwardArgs&) {}
  virtual void BeforeBackward(size_t /*layer*/, const BackwardArgs&) {}
  virtual void AfterBackward(size_t /*layer*/, const BackwardArgs&) {}
  // Called before a layer runs forward again in the backward pass (`recompute`).
  virtual void BeforeRecompute(size_t /*layer*/, const ForwardArgs&) {}
  virtual void AfterRecompute(size_t /*layer*/, const ForwardArgs&) {}
};

// Thread safety: one thread at a time. Any number of sessions may share a plan, and weights that
// do not change meanwhile.
class Session {
 public:
  // Allocates all memory except the packed weights of implementations, which the first pass makes;
  // later passes allocate nothing. Runs on the threads of the context, but on no more than the plan
  // was made for. Throws kInvalidArgument if the plan is for another device.
  Session(std::shared_ptr<const Plan> plan, std::shared_ptr<const Weights> weights,
          ExecContext context);
  // The same. Layers of the TRAIN phase update the running statistics in `weights`.
  Session(std::shared_ptr<const Plan> plan, std::shared_ptr<Weights> weights, ExecContext context);
  // Waits for queued work.
  ~Session();

  // Changes the shape of an input of the net: for MutableData now, for the layers at the next
  // Forward, which infers the shapes of later layers. Does not plan again. On the CPU, in a plan
  // without optimizations, blobs get other memory if they outgrow the plan. Otherwise this and
  // Forward throw kInvalidArgument if a blob needs more memory than planned.
  void Reshape(const std::string& input, const Shape& shape);

  // Runs all layers. Returns the total loss: the sum over weighted values of weight * sum(value).
  double Forward();
  // The same without the loss. On a GPU it returns when the work is queued; errors may come later.
  void QueueForward();
  // Run only the layers from `first` to `last` (indices into the plan, both included): forward, and
  // from `last` down to `first` backward. ForwardLayers counts as a pass and returns the loss of
  // these layers. Throw kInvalidArgument unless first <= last < layers, kUnsupported on a GPU.
  double ForwardLayers(size_t first, size_t last);
  void BackwardLayers(size_t first, size_t last);
  // Infers the shapes of all layers for the present shapes of the inputs, as Forward does. Throws
  // the same errors.
  void UpdateShapes();
  // Returns the loss of the last pass. On a GPU it waits for that pass.
  double Loss() const;
  // Returns the place of that loss in device memory, which holds until the next pass. Null on the
  // CPU.
  const double* LossPlace() const;
  // Promises that the weights do not change any more, so that implementations may cache packed
  // weights. Otherwise each pass packs them.
  void FixWeights();
  // Shares packed weights with other sessions over the same weights, before or after the first
  // pass. Requires: all of them have called FixWeights.
  void SharePacked(PackedWeightCache* pool);

  // Sets the factor of all losses from which the gradients of the next Backward start.
  void set_loss_scale(double scale);
  // Makes the next Backward read that factor from device memory. Requires a GPU.
  void set_loss_scale_place(const double* scale);
  // Sets the gradients from which Backward starts (those that no layer writes) to the loss weights
  // now, and leaves them to the program from then on.
  void LeaveOutputGradients();
  // Computes the gradients of the last Forward. Adds to those of parameters. Requires a plan with
  // backward.
  void Backward();

  // Return the view of a blob, of the last value of the name, or (MutableData, Gradient) of the
  // first: set inputs there. Shapes are those of the last Forward. The view is empty if there is no
  // such blob or gradient, if it is a batch that was not read yet, or if the plan gives it another
  // layout; plans with optimize = false give all blobs the plain one.
  ConstTensorView Data(const std::string& name) const;
  TensorView MutableData(const std::string& name);
  ConstTensorView Gradient(const std::string& name) const;
  ConstTensorView DataOf(int value) const { return values_.Data(value); }
  TensorView GradientOf(int value) const { return values_.Gradient(value); }
  // Returns the owner of memory that views made now may refer to after the session has replaced it,
  // because a blob has outgrown it. Null: there is none beside the session.
  std::shared_ptr<const void> grown() const { return values_.grown(); }

  // Returns the gradient of a parameter slot; slots that share have one. Empty if none was planned.
  TensorView ParameterGradient(size_t slot) { return parameters_.Gradient(slot); }
  // Returns all of them in their order, with padding. Requires a plan of f32.
  std::span<float> ParameterGradientMemory() { return parameters_.GradientMemory(); }

  // On a GPU all views above are of device memory. These copy between a view of the session and
  // host memory of the same size, on any device, and wait.
  void Write(const TensorView& to, const void* from) const;
  void Read(const ConstTensorView& from, void* to) const;
  // On a GPU a session works on a copy of the weights. TakeWeights copies them again after they
  // were changed; the others copy back the running statistics, or all after Parameter was
  // changed. They do nothing on the CPU.
  void TakeWeights() { parameters_.Upload(); }
  void ReturnStatistics() { parameters_.DownloadStatistics(); }
  void ReturnWeights() { parameters_.Download(); }
  // Returns that copy, or on the CPU the weights themselves.
  TensorView Parameter(size_t slot) const { return parameters_.Blob(slot); }
  const Weights& weights() const { return parameters_.weights(); }
  bool OnGpu() const { return context_.device().type != DeviceType::kCpu; }
  void ZeroParameterGradients() { parameters_.ZeroGradients(); }

  // Save and restore the positions of data readers, for snapshots. `net` is the name of the net in
  // the run ("train", "test#0").
  void SaveState(const std::string& net, SolverState* state) const;
  void RestoreState(const std::string& net, const SolverState& state);
  // Returns the number of forward passes so far, on which random draws depend.
  uint64_t step() const { return next_step_; }
  void set_step(uint64_t step) { next_step_ = step; }

  // Calls the observer for each layer from the next pass on. It must live until another is set;
  // null: none. With an observer, passes on a GPU are not CUDA graphs.
  void set_observer(LayerObserver* observer) { observer_ = observer; }

  // Returns the reason why passes are not CUDA graphs; empty if they are, from the third pass of
  // the
  // same shapes on, or on the CPU.
  std::string WhyNoGraph() const;

  // Returns the state of a layer (an index into the plan), such as its data reader. Null: none.
  const LayerSessionState* state(size_t layer) const;
  // Returns the state of the layer of this name, to be cast to the interface of its type
  // (data/batches/memory_feed.h). Null if it has none, or if there is no such layer.
  LayerSessionState* MutableState(const std::string& layer);

  const Plan& plan() const { return *plan_; }
  const ExecContext& context() const { return context_; }

 private:
  Session(std::shared_ptr<const Plan> plan, std::shared_ptr<const Weights> weights,
          std::shared_ptr<Weights> updated, ExecContext context);
  void PrepareGpu();
  void CheckRange(size_t first, size_t last) const;
  bool IsPlain(int value) const;
  void ForwardLayer(size_t layer);
  void RunForward(size_t layer, LayerStep* step);
  void TakeOutputShapes(size_t layer, LayerStep* step);
  void RequireGrowth(const PlannedLayer& layer, size_t output, const Shape& shape,
                     const Shape& planned) const;  // throws kInvalidArgument
  void CopyInputsAway(const PlannedLayer& layer, LayerStep* step);
  void BackwardLayer(size_t layer);
  void Recompute(size_t layer);
  void StartGradients(const LayerStep& step);
  void RunBackward(size_t layer, const LayerStep& step);
  ForwardArgs ForwardArgsOf(const PlannedLayer& layer, LayerStep* step);
  double LossOf(const PlannedLayer& layer) const;

  std::shared_ptr<const Plan> plan_;
  ExecContext context_;
  SessionParameters parameters_;
  SessionValues values_;
  std::unique_ptr<StepBinder> steps_;
  LayerObserver* observer_ = nullptr;
  uint64_t next_step_ = 0;
  bool weights_fixed_ = false;
  bool leaves_output_gradients_ = false;
  double loss_scale_ = 1;
  double loss_ = 0;                       // of the last pass on the CPU
  std::unique_ptr<DevicePasses> device_;  // null on the CPU; waits before the rest is freed
};

// Calls Session::QueueForward, and logs the deferred warnings of layers (HasDeferredWarnings:
// skipped bad samples, a full cache) to `log`, also if the pass throws. Null: they stay deferred.
void QueueForwardAndWarn(Session* session, LogSink* log);
// The same, and returns the loss.
double ForwardAndWarn(Session* session, LogSink* log);

// A tensor of a session that the host can read, on any device.
//
// On the CPU the memory of the session; on a GPU a copy, made by the constructor. Must not outlive
// the session.
class HostView {
 public:
  HostView(const Session& session, const ConstTensorView& of) : view_(of) {
    if (!session.OnGpu() || of.empty()) return;
    copy_ = Tensor(of.shape(), of.dtype());
    session.Read(of, copy_.view().raw());
    view_ = std::as_const(copy_).view();
  }
  HostView(const HostView&) = delete;
  HostView& operator=(const HostView&) = delete;

  const ConstTensorView& operator*() const { return view_; }
  const ConstTensorView* operator->() const { return &view_; }

 private:
  Tensor copy_;
  ConstTensorView view_;
};

}  // namespace crema
