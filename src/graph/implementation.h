// Implementations of layers, and how they are asked about an operation.
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
#include "graph/norm_fusion.h"

namespace crema {

// Facts about the processor that estimates of time depend on. Unset ones are measured on this
// machine when they are needed first; tests of planning give them.
struct ProcessorFacts {
  // Speed of a convolution on bfloat16 in units of that in f32; 0: it cannot be run.
  std::optional<double> bfloat16_speedup = {};
};

// Describes one operation to an implementation: a layer with what is fused into it, its shapes, and
// the conditions it runs under. Refers to its parts, which must outlive it.
struct OpDesc {
  const Layer& layer;
  const InferContext& context;
  const LayerInfo& info;
  int threads = 1;
  bool backward = false;              // a backward pass may follow
  bool to_input = false;              // which makes gradients of inputs
  bool deterministic = false;         // the same bits are wanted on any number of threads
  Precision precision = Precision{};  // FP32; the lowest that this layer may compute in
  // Following layers to compute too, in order (PlannedLayer::fused).
  std::span<const Layer* const> fused = {};
  // Elements from one image of output 0 to the next, and of its gradient; 0: dense.
  int64_t output_stride = 0;
  int gpu = 0;  // its number, in plans for a GPU
  NormFusion norm_fusion = {};
  ProcessorFacts processor = {};

  // Returns the same about other inputs, or another result of Infer.
  OpDesc With(const InferContext& other_context, const LayerInfo& other_info) const;
};

// "Yes", or why not. Plans keep the reason; `summary --plan` and `profile --json` print it.
struct Support {
  bool yes = true;
  std::string reason;
  static Support No(std::string why) { return {false, std::move(why)}; }
};

// Bytes that an implementation needs for an operation.
struct Needs {
  size_t forward_scratch = 0;
  size_t backward_scratch = 0;  // 0 without a backward pass
  size_t state_bytes = 0;       // that its state holds
};

// Facts about an implementation that no operation changes.
struct ImplementationFacts {
  std::string name;  // "native", "cuda", "im2col_batch"
  DeviceType device = DeviceType::kCpu;
  // Formats of all its inputs and of all its outputs. A session whose inputs change shape can
  // choose among implementations of the same formats only, so at least one of those with formats
  // that are not plain must support every batch size, height and width.
  MemoryFormat input_format = {};
  MemoryFormat output_format = {};
  // Can write output 0 and read its gradient as sub-views of a larger blob, with images
  // OpDesc::output_stride elements apart (TensorView::image_stride()), for every batch size.
  bool strided_output = false;
  // Can do OpDesc::norm_fusion, as the convolution or as the BatchNorm, for every shape that it
  // supports at all.
  NormRole norm_role = NormRole::kNone;
};

// One way to run a layer type on one device. Thread safety: const.
class Implementation : public ImplementationFacts {
 public:
  virtual ~Implementation() = default;
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  // Returns whether it can do `op`, with all that is fused into it. Refuses what the facts and
  // CanFuse do not declare; the reason is empty if it is CanFuse that refuses.
  Support Supports(const OpDesc& op) const;
  // Returns whether it can compute `op.fused` too. Extra inputs of these layers come after those of
  // the layer, their learned blobs and the gradients of these after its own.
  virtual bool CanFuse(const OpDesc& /*op*/) const { return false; }
  // Returns whether a plan may ask it for `op.output_stride` or `op.norm_fusion`, which its facts
  // declare. Called with the planned shapes; declines what is not profitable.
  virtual Support Accepts(const OpDesc& /*op*/) const { return {}; }
  // Estimates the seconds of one forward pass, to compare with the cost of reorders. Nothing: the
  // cost of reading the inputs and writing the outputs.
  virtual std::optional<double> Seconds(const OpDesc& /*op*/) const { return {}; }
  // Returns `op.info` with what this implementation saves and its backward reads.
  virtual LayerInfo Info(const OpDesc& op) const { return op.info; }
  virtual Needs NeedsOf(const OpDesc& /*op*/) const { return {}; }
  // Returns null if it has no state for this operation.
  virtual std::unique_ptr<ImplementationState> MakeState(const OpDesc& /*op*/) const { return {}; }
  virtual void Forward(const Layer& layer, const ForwardArgs& args) const = 0;
  virtual void Backward(const Layer& layer, const BackwardArgs& args) const = 0;

 protected:
  explicit Implementation(ImplementationFacts facts) : ImplementationFacts(std::move(facts)) {}

 private:
  // Returns whether it can do the layer of `op`.
  virtual Support SupportsLayer(const OpDesc& /*op*/) const { return {}; }
};

using ImplementationPtr = std::shared_ptr<const Implementation>;

// Name of the plain implementation, which Registry::Add appends for the CPU.
inline constexpr std::string_view kNativeImplementation = "native";

// Functions that make up a simple implementation. Null `forward` and `backward` are the methods of
// the layer, with the scratch that these need; the other null ones are the defaults of
// Implementation.
struct ImplementationFunctions {
  Support (*supports)(const OpDesc&) = nullptr;
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
  std::optional<double> Seconds(const OpDesc& op) const override;
  LayerInfo Info(const OpDesc& op) const override;
  Needs NeedsOf(const OpDesc& op) const override;
  void Forward(const Layer& layer, const ForwardArgs& args) const override;
  void Backward(const Layer& layer, const BackwardArgs& args) const override;

 private:
  Support SupportsLayer(const OpDesc& op) const override;

  const ImplementationFunctions functions_;
};

// Adds a state, made as State(op).
template <typename State>
class StatefulImplementation : public FunctionImplementation {
 public:
  using FunctionImplementation::FunctionImplementation;
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    return std::make_unique<State>(op);
  }
};

// Returns a `Base`: a FunctionImplementation or a class derived from it.
template <typename Base = FunctionImplementation>
ImplementationPtr MakeSimpleImplementation(ImplementationFacts facts,
                                           const ImplementationFunctions& functions) {
  return std::make_shared<Base>(std::move(facts), functions);
}

// Forwards to another implementation all that a derived class does not override, under facts of its
// own. Supports what `checks`, asked in order, and that implementation support; null checks agree.
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
