// A plan that runs: arena, context, and the state of its layers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/exec_context.h"
#include "core/tensor.h"
#include "plan/plan.h"
#include "runtime/layer_observer.h"
#include "runtime/packed_weight_cache.h"
#include "runtime/source_transfer.h"
#include "runtime/weights.h"

namespace crema {

// Thread safety: one thread at a time; any number of sessions over one plan and one set of weights
// that nobody changes meanwhile.
class Session {
 public:
  // Allocates everything that running needs, but for what implementations keep of weights, which
  // comes with the first pass; later calls allocate nothing. Runs on as many threads as the context
  // has, but not on more than the plan was made for.
  Session(std::shared_ptr<const Plan> plan, std::shared_ptr<const Weights> weights,
          ExecContext context);
  // The same, and layers of the TRAIN phase update their statistics (running means) in `weights`.
  Session(std::shared_ptr<const Plan> plan, std::shared_ptr<Weights> weights, ExecContext context);
  ~Session();

  // Gives an input of the net other extents from the next Forward on: at most as many elements as
  // it was planned with. Nothing is planned anew: layers behind it are asked for their shapes again
  // during that Forward, which throws kInvalidArgument when one needs more memory than it was
  // planned with. The view of MutableData has the new shape at once.
  void Reshape(const std::string& input, const Shape& shape);

  // Runs all layers. Returns the total loss: the sum over weighted values of weight * sum(value).
  double Forward();
  // The same; on a GPU it returns when the work is queued, and its errors may come later.
  void QueueForward();
  // The loss of the last pass; on a GPU it waits for it.
  double Loss() const;
  // Where a GPU puts that loss, until the next pass. Null on the CPU.
  const double* LossPlace() const;
  // Promises that nobody changes the weights any more: implementations may keep what they
  // make of them. Otherwise they make it anew in each pass.
  void FixWeights();
  // Uses what other sessions over the same weights have made of them, and lets others use what this
  // one has. Of use before the first pass, and behind it. Requires: all of them fixed them.
  void SharePacked(PackedWeightCache* pool);

  // A factor on all losses that gradients of the next Backward start from, and so on these.
  void set_loss_scale(double scale);
  // On a GPU: where that factor is from now on, of its memory.
  void set_loss_scale_place(const double* scale);
  // Gradients of the last Forward. Learned gradients are added to. Requires a plan with backward.
  void Backward();

  // By blob name; empty view when there is none of that name (or no gradient was planned, or it is
  // of a batch and none was read yet, or the plan has it in another memory format: plans with
  // optimize = false have every blob as it is). Data is that of the last value of the name,
  // MutableData of the first: set inputs there. Shapes are those of the last Forward, which may be
  // smaller than planned.
  ConstTensorView Data(const std::string& name) const;
  TensorView MutableData(const std::string& name);
  ConstTensorView Gradient(const std::string& name) const;
  ConstTensorView DataOf(int value) const;

  // By learned slot; slots that share have one gradient. Empty when none was planned.
  TensorView LearnedGradient(size_t slot) { return learned_gradients_[slot]; }
  // All of them as they lie, with what fills up between them. Requires a plan of f32.
  std::span<float> LearnedGradientMemory();

  // On a GPU all views above are of its memory, which the host cannot touch. These copy between a
  // view of the session and memory of the host of as many bytes, on any device, and wait.
  void Write(const TensorView& to, const void* from) const;
  void Read(const ConstTensorView& from, void* to) const;
  // On a GPU a session works on a copy of the weights, made when the session is. Takes them again
  // when they were changed, and writes back what the session has changed: statistics, or all when
  // somebody changed LearnedBlob. Nothing on the CPU.
  void TakeWeights();
  void ReturnStatistics();
  void ReturnWeights();
  // What the session works on: that copy, or the weights themselves.
  TensorView LearnedBlob(size_t slot) const;
  bool OnGpu() const { return context_.device().type != DeviceType::kCpu; }
  void ZeroLearnedGradients();

  // Position of data readers and the number of forward passes, for snapshots. `net` says which net
  // of the run this is ("train", "test#0").
  void SaveState(const std::string& net, SolverState* state) const;
  void RestoreState(const std::string& net, const SolverState& state);
  // Forward passes so far; random draws depend on it.
  uint64_t step() const { return next_step_; }
  void set_step(uint64_t step) { next_step_ = step; }

  // Hears of each layer from the next pass on; must live until another is set. Null: nobody. While
  // there is one, a GPU is given each layer by itself.
  void set_observer(LayerObserver* observer) { observer_ = observer; }

  // Why passes are not queued as one (as CUDA graphs); empty: they are, from the third pass of the
  // same extents on, or this is the CPU.
  std::string WhyNoGraph() const;

  // The state of a layer (an index into the plan), such as its data reader; null when it has none.
  const LayerSessionState* state(size_t layer) const { return steps_[layer].state.get(); }
  // The same by name, to be cast to what the layer's type offers (data/batches/memory_feed.h); null
  // also when there is no such layer.
  LayerSessionState* MutableState(const std::string& layer);

  const Plan& plan() const { return *plan_; }
  const ExecContext& context() const { return context_; }

 private:
  static constexpr uint64_t kUnbound = ~uint64_t{0};  // an epoch that never is

  // The arguments of one layer, made once and when extents change or lent memory moves.
  struct Step {
    const LayerInfo* info = nullptr;      // of the plan, or own_info
    std::unique_ptr<LayerInfo> own_info;  // for extents that differ from the plan's
    const Implementation* implementation = nullptr;
    size_t forward_scratch = 0;
    size_t backward_scratch = 0;
    uint64_t forward_epoch = 0;  // shape_epoch_ that the forward arguments were compared with
    uint64_t backward_epoch = 0;
    bool concat_in_place = false;  // the inputs are where the output is: nothing to do

    std::vector<ConstTensorView> forward_inputs;
    std::vector<TensorView> forward_outputs;
    std::vector<Shape> output_shapes;  // what a layer with dynamic outputs says
    std::vector<std::byte*> external;  // by output, of a layer that lends; else empty
    std::vector<ConstTensorView> learned;
    std::vector<TensorView> statistics;
    std::vector<TensorView> saved;
    // Of a layer that runs again in the backward pass.
    std::vector<ConstTensorView> again_inputs;
    std::vector<TensorView> again_outputs;
    std::vector<TensorView> again_saved;
    uint64_t again_epoch = 0;
    std::vector<ConstTensorView> backward_inputs;
    std::vector<ConstTensorView> backward_outputs;
    std::vector<ConstTensorView> output_grads;
    std::vector<TensorView> input_grads;
    std::vector<TensorView> learned_grads;
    std::vector<ConstTensorView> saved_const;
    std::vector<TensorView> seeds;  // output gradients that start from a constant
    std::vector<float> seed_values;
    std::unique_ptr<LayerSessionState> state;
    std::unique_ptr<ImplementationState> implementation_state;
    // Outputs of a source, which runs on the host, on their way to a GPU.
    std::unique_ptr<SourceTransfer> transfer;
    Tensor inputs_away;  // copies of inputs that were placed in the output, for other extents
  };

  enum class Statistics { kFixed, kUpdated };
  Session(std::shared_ptr<const Plan> plan, std::shared_ptr<Weights> weights, ExecContext context,
          Statistics statistics);

  TensorView ViewOf(const ArenaSlot& slot, const BlobSpec& spec) const;
  // The same of a value, which may be a range of another one: in that, or with memory of its own
  // where its extents are not the planned ones.
  TensorView DataView(int value, const BlobSpec& spec) const;
  TensorView GradientView(int value, const BlobSpec& spec) const;
  TensorView SubView(int value, const ArenaSlot& slot, const BlobSpec& spec,
                     const std::vector<Tensor>& own) const;
  bool IsSubView(int value, const Shape& shape) const;
  void TakeOwnMemory(int value);
  int64_t OutputStrideOf(const PlannedLayer& layer) const;
  bool IsConcatInPlace(const PlannedLayer& layer) const;
  void CheckStrides(const PlannedLayer& layer, const Step& step, bool backward) const;
  bool IsBlocked(int value) const {
    return plan_->values[static_cast<size_t>(value)].spec.format != MemoryFormat::kPlain;
  }
  // The data of a value that the backward pass reads.
  TensorView LateDataOf(int value) const;
  BlobSpec SpecOf(int value) const;
  void AllocateLearnedGradients();
  void BindForward(const PlannedLayer& layer, Step* step);
  void BindAgain(const PlannedLayer& layer, Step* step);
  void BindBackward(const PlannedLayer& layer, Step* step);
  // Brings the arguments of a layer in line with the extents of its inputs.
  void Refit(const PlannedLayer& layer, Step* step);
  void InferAgain(const PlannedLayer& layer, Step* step);
  void ChooseImplementationAgain(const PlannedLayer& layer, const OpDesc& query, Step* step);
  OpDesc QueryOf(const PlannedLayer& layer, const InferContext& context,
                 const LayerInfo& info) const;
  void MakeImplementationState(const PlannedLayer& layer, Step* step);
  void BookScratch(const OpDesc& query, Step* step);
  Tensor ByteTensor(size_t bytes) const;
  bool IsSourceOfGpu(const PlannedLayer& layer) const;
  void Stage(Step* step) const;
  void SendStaged(const PlannedLayer& layer, const Step& step) const;
  struct OnGpuState;  // session_gpu.h
  void PrepareGpu();
  void RefuseGraphs();
  void ForwardOnGpu();
  void ForwardLayer(size_t index);
  void BackwardLayer(size_t index);
  void BeginPassOnGpu();
  bool HasLoss(const PlannedLayer& layer) const;
  void AddLossOnGpu(const PlannedLayer& layer);
  void ForgetGraphs();
  void SetShape(int value, const Shape& shape);
  void FindBufferReaders();
  void TakeExternalBuffers(size_t index);
  void Rebind(size_t index);
  void TakeDynamicShapes(const PlannedLayer& layer, const Step& step);
  ForwardArgs ForwardArgsOf(const PlannedLayer& layer, Step* step);
  void RunForward(const PlannedLayer& layer, Step* step);
  void CopyInputsAway(const PlannedLayer& layer, Step* step);
  // Runs forward again what the backward of this layer reads and was not kept.
  void RunAgainFor(const PlannedLayer& layer);
  void RunAgain(const PlannedLayer& layer, Step* step);
  void RunBackward(const PlannedLayer& layer, const Step& step);
  double LossOf(const PlannedLayer& layer) const;
  size_t IndexOf(const PlannedLayer& layer) const {
    return static_cast<size_t>(&layer - plan_->layers.data());
  }

  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Weights> weights_;
  std::shared_ptr<Weights> mutable_weights_;  // null when statistics may not change
  ExecContext context_;
  LayerObserver* observer_ = nullptr;
  Tensor arena_;
  Tensor scratch_;
  Tensor gradient_memory_;
  // By PlannedValue::sub_view_of: data and gradients, where they were needed so far.
  std::vector<Tensor> own_data_, own_gradients_;
  std::vector<Tensor> device_weights_;               // by slot, of those that own; on a GPU
  std::vector<TensorView> learned_gradients_;        // by slot
  std::vector<Step> steps_;                          // by layer
  std::vector<Shape> shapes_;                        // by value, now
  uint64_t shape_epoch_ = 0;                         // counts changes of shapes_
  std::vector<std::byte*> external_buffers_;         // by value: what its layer lent last
  std::vector<std::vector<size_t>> buffer_readers_;  // by value: the layers that see what it lends
  uint64_t next_step_ = 0;
  bool weights_fixed_ = false;
  double loss_scale_ = 1;
  double loss_ = 0;                     // of the last pass on the CPU
  std::unique_ptr<OnGpuState> on_gpu_;  // null on the CPU
};

}  // namespace crema
