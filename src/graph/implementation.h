// Implementations of layers, and queries about operations.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device.h"
#include "graph/layer.h"

namespace crema {

// Properties of the processor that time estimates depend on. Unset ones are measured on this
// machine at the first use; tests of planning set them.
struct ProcessorFacts {
  // Speeds of a convolution on bfloat16 relative to f32, on blocked and on channels-last blobs; 0:
  // not supported, or for the latter no faster than on blocked blobs.
  std::optional<double> bfloat16_speedup = {};
  std::optional<double> channels_last_speedup = {};
  // Multiplies bytes four at a time.
  std::optional<bool> vnni = {};
};

// Describes one operation to an implementation: a layer with the layers that are fused into it, its
// shapes, and the conditions under which it runs. Refers to its parts, which must outlive it.
struct OpDesc {
  const Layer& layer;
  const InferContext& context;
  const LayerInfo& info;
  int threads = 1;
  bool backward = false;              // a backward pass may follow
  bool to_input = false;              // it computes gradients of inputs
  bool deterministic = false;         // requires the same bits for any number of threads
  Precision precision = Precision{};  // FP32; the lowest that this layer may compute in
  // Following layers that it computes too, in order (Fusion::layers).
  std::span<const Layer* const> fused = {};
  // Elements from one image of output 0 to the next, and of its gradient; 0: dense.
  int64_t output_stride = 0;
  int gpu = 0;  // its number, in plans for a GPU
  ProcessorFacts processor = {};

  // Returns the same query about other inputs, or another result of Infer.
  OpDesc With(const InferContext& other_context, const LayerInfo& other_info) const;
};

// "Yes", or the reason why not. Plans store the reason; `summary --plan` and `profile --json` print
// it.
struct Support {
  bool yes = true;
  std::string reason;
  static Support No(std::string why) { return {false, std::move(why)}; }
};

// Bytes that an implementation needs for an operation.
struct Needs {
  size_t forward_scratch = 0;
  size_t backward_scratch = 0;  // 0 without a backward pass
  size_t state_bytes = 0;       // of its state
};

// Facts about an implementation that do not depend on an operation.
struct ImplementationFacts {
  std::string name;  // "native", "cuda", "im2col_batch"
  DeviceType device = DeviceType::kCpu;
  // Formats of all its inputs (but see plain_later_inputs) and of all its outputs. A session whose
  // inputs change shape can choose among implementations of the same formats only, so at least one
  // of those with formats that are not plain must support every batch size, height and width.
  MemoryFormat input_format = {};
  MemoryFormat output_format = {};
  // Supports sub-views of a larger blob as output 0 and its gradient, with images
  // OpDesc::output_stride elements apart (TensorView::image_stride()), for every batch size.
  bool strided_output = false;
  // Its own inputs after the first are plain, whatever the format of the first is.
  bool plain_later_inputs = false;
  // Computes with parameter 0 as bytes with a step for each output (math/int8_weights.h).
  bool rounds_weights = false;

  // Returns the format of own input i.
  MemoryFormat InputFormat(size_t i) const {
    return plain_later_inputs && i > 0 ? MemoryFormat{} : input_format;
  }
};

// One way to run a layer type on one device. Thread safety: const.
class Implementation : public ImplementationFacts {
 public:
  virtual ~Implementation() = default;
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  // Returns whether it supports `op`, with all fused layers. Refuses what the facts and CanFuse do
  // not declare; the reason is empty if CanFuse refuses.
  Support Supports(const OpDesc& op) const;
  // Returns whether it can compute `op.fused` too. Extra inputs of these layers come after those of
  // the layer, their parameters and the gradients of these after its own.
  virtual bool CanFuse(const OpDesc& /*op*/) const { return false; }
  // Returns whether a plan may use `op.output_stride`, which its facts declare. Called with the
  // planned shapes; declines if it is not profitable.
  virtual Support Accepts(const OpDesc& /*op*/) const { return {}; }
  // Estimates the seconds of one forward pass, to compare with the cost of reorders. Nothing: the
  // planner uses the cost of reading the inputs and writing the outputs.
  virtual std::optional<double> Seconds(const OpDesc& /*op*/) const { return {}; }
  // Returns `op.info` with the tensors that this implementation saves and its backward reads.
  virtual LayerInfo Info(const OpDesc& op) const { return op.info; }
  virtual Needs NeedsOf(const OpDesc& /*op*/) const { return {}; }
  // Returns null if it has no state for this operation.
  virtual std::unique_ptr<ImplementationState> MakeState(const OpDesc& /*op*/) const { return {}; }
  virtual void Forward(const Layer& layer, const ForwardArgs& args) const = 0;
  virtual void Backward(const Layer& layer, const BackwardArgs& args) const = 0;

 protected:
  explicit Implementation(ImplementationFacts facts) : ImplementationFacts(std::move(facts)) {}

 private:
  // Returns whether it supports the layer of `op`.
  virtual Support SupportsLayer(const OpDesc& /*op*/) const { return {}; }
};

using ImplementationPtr = std::shared_ptr<const Implementation>;

// Name of the plain implementation for the CPU: the methods of the layer.
inline constexpr std::string_view kNativeImplementation = "native";

// Functions of a simple implementation. Null `forward` and `backward` mean the methods of the
// layer, with their scratch; the other null ones are the defaults of Implementation.
struct ImplementationFunctions {
  Support (*supports)(const OpDesc&) = nullptr;
  bool (*can_fuse)(const OpDesc&) = nullptr;
  void (*forward)(const Layer&, const ForwardArgs&) = nullptr;
  void (*backward)(const Layer&, const BackwardArgs&) = nullptr;
  size_t (*forward_scratch)(const OpDesc&) = nullptr;
  size_t (*backward_scratch)(const OpDesc&) = nullptr;
  size_t (*state_bytes)(const OpDesc&) = nullptr;
  LayerInfo (*info)(const OpDesc&) = nullptr;
  double (*seconds)(const OpDesc&) = nullptr;
};

// Without functions it is the native implementation.
class FunctionImplementation : public Implementation {
 public:
  explicit FunctionImplementation(ImplementationFacts facts,
                                  const ImplementationFunctions& functions = {})
      : Implementation(std::move(facts)), functions_(functions) {}
  bool CanFuse(const OpDesc& op) const override;
  std::optional<double> Seconds(const OpDesc& op) const override;
  LayerInfo Info(const OpDesc& op) const override;
  Needs NeedsOf(const OpDesc& op) const override;
  void Forward(const Layer& layer, const ForwardArgs& args) const override;
  void Backward(const Layer& layer, const BackwardArgs& args) const override;

 private:
  Support SupportsLayer(const OpDesc& op) const override;

  const ImplementationFunctions functions_;
};

// Adds a state, made by State(op).
template <typename State>
class StatefulImplementation : public FunctionImplementation {
 public:
  using FunctionImplementation::FunctionImplementation;
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    return std::make_unique<State>(op);
  }
};

// Returns a `Base`: a FunctionImplementation or a derived class.
template <typename Base = FunctionImplementation>
ImplementationPtr MakeSimpleImplementation(ImplementationFacts facts,
                                           const ImplementationFunctions& functions) {
  return std::make_shared<Base>(std::move(facts), functions);
}

// Forwards everything that a derived class does not override to another implementation, but has its
// own facts. Supports what all `checks`, called in order, and that implementation support; null
// checks agree.
class ImplementationAdapter : public Implementation {
 public:
  using Check = Support (*)(const OpDesc&);
  ImplementationAdapter(ImplementationFacts facts, ImplementationPtr own,
                        std::vector<Check> checks = {})
      : Implementation(std::move(facts)), own_(std::move(own)), checks_(std::move(checks)) {}
  bool CanFuse(const OpDesc& op) const override { return own_->CanFuse(op); }
  Support Accepts(const OpDesc& op) const override { return own_->Accepts(op); }
  std::optional<double> Seconds(const OpDesc& op) const override { return own_->Seconds(op); }
  LayerInfo Info(const OpDesc& op) const override { return own_->Info(op); }
  Needs NeedsOf(const OpDesc& op) const override { return own_->NeedsOf(op); }
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    return own_->MakeState(op);
  }
  void Forward(const Layer& layer, const ForwardArgs& args) const override {
    own_->Forward(layer, args);
  }
  void Backward(const Layer& layer, const BackwardArgs& args) const override {
    own_->Backward(layer, args);
  }

 protected:
  const Implementation& own() const { return *own_; }

 private:
  Support SupportsLayer(const OpDesc& op) const override;

  const ImplementationPtr own_;
  const std::vector<Check> checks_;
};

}  // namespace crema
