// What layer types exist, what implements them, and how they are tested.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "graph/layer.h"
#include "graph/norm_fusion.h"

namespace crema {

// How many bottoms or tops a type takes.
struct Arity {
  static constexpr int kAny = 1 << 20;
  int min = 1;
  int max = 1;
};

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
  bool backward = false;       // a backward pass may follow
  bool to_input = false;       // which makes gradients of inputs
  bool deterministic = false;  // the same bits are wanted on any number of threads
  Precision precision = FP32;  // the lowest that this layer may compute in
  // Following layers to compute too, in order (PlannedLayer::fused).
  std::span<const Layer* const> fused = {};
  // Elements from one image of output 0 to the next, and of its gradient; 0: dense.
  int64_t output_stride = 0;
  int gpu = 0;  // its number, in plans for a GPU
  NormFusion norm_fusion = {};
  ProcessorFacts processor = {};
};

// "Yes", or why not. Plans keep the reason; `summary --plan` and `profile --json` print it.
struct Support {
  bool yes = true;
  std::string reason;
  static Support No(std::string why) { return {false, std::move(why)}; }
};

// One way to run a layer type on one device. On the CPU, empty functions stand for the methods of
// the layer itself.
struct Implementation {
  std::string name;  // "native", "cuda", "im2col_batch"
  DeviceType device = DeviceType::kCpu;
  std::function<Support(const OpDesc&)> supports = {};  // empty: always yes
  std::function<void(const Layer&, const ForwardArgs&)> forward = {};
  std::function<void(const Layer&, const BackwardArgs&)> backward = {};
  std::function<size_t(const OpDesc&)> forward_scratch = {};  // bytes
  std::function<size_t(const OpDesc&)> backward_scratch = {};
  // Formats of all its inputs and of all its outputs. A session whose inputs change shape can
  // choose among implementations of the same formats only, so at least one of those with formats
  // other than kPlain must support every batch size, height and width.
  MemoryFormat input_format = MemoryFormat::kPlain;
  MemoryFormat output_format = MemoryFormat::kPlain;
  // Estimates the seconds of one forward pass, to compare with the cost of reorders. Empty: the
  // cost of reading the inputs and writing the outputs.
  std::function<double(const OpDesc&)> seconds = {};
  std::function<std::unique_ptr<ImplementationState>(const OpDesc&)> make_state = {};
  // Returns the bytes that such a state holds.
  std::function<size_t(const OpDesc&)> state_bytes = {};
  // Returns whether it can compute `query.fused` too. Extra inputs of these layers come after those
  // of the layer, their learned blobs and the gradients of these after its own. Empty: never.
  std::function<bool(const OpDesc&)> can_fuse = {};
  // Returns `query.info` with what this implementation saves and its backward reads. Empty:
  // unchanged.
  std::function<LayerInfo(const OpDesc&)> info = {};
  // Returns whether it can write output 0 and read its gradient as sub-views of a larger blob, with
  // images `query.output_stride` elements apart (TensorView::image_stride()). Called with the
  // planned batch and may decline if not profitable; an implementation that provides it must
  // support every batch size. Empty: never.
  std::function<bool(const OpDesc&)> strided_output = {};
  // Returns whether it supports `query.norm_fusion`, as the convolution or as the BatchNorm of it.
  // Called with the planned shapes and may decline if not profitable; an implementation that
  // provides it must support it for every shape that it supports at all. Empty: never.
  std::function<Support(const OpDesc&)> supports_norm_fusion = {};
  std::function<Support(const OpDesc&)> supports_fusion_as_norm = {};
};

// Name of the plain implementation, which Add appends for the CPU.
inline constexpr std::string_view kNativeImplementation = "native";

// Returns the scratch bytes that an implementation needs. Null, or one without functions of its
// own, is the native implementation.
size_t ForwardScratchOf(const Implementation* implementation, const OpDesc& query);
size_t BackwardScratchOf(const Implementation* implementation, const OpDesc& query);

// How the generic checker draws one input of a sample.
struct SampleInput {
  std::vector<int64_t> shape;
  double low = -1;
  double high = 1;
  bool integer = false;  // whole numbers low..high (labels)
  // Values nearer than 0.05 to this one are moved away: the layer has a kink there.
  bool has_kink = false;
  double kink = 0;
  bool distinct = false;  // all values differ by 0.05 or more (max pooling, Eltwise MAX)
};

// A case that the generic checker runs: gradient, in place, canaries, two threads.
struct LayerSample {
  std::string name;
  std::string prototxt;  // fields of the layer besides name, type, bottom and top
  std::vector<SampleInput> inputs;
  int outputs = 1;
  Phase phase = TRAIN;
  bool gradient = true;  // false: the layer has none (Accuracy, data)
  // false: what it adds to learned gradients is an update rule of its own and not the derivative
  // (CenterLoss); Backward runs, values are not compared with numeric ones.
  bool learned_gradient = true;
  // Forward updates learned blobs or sources, so running again gives other outputs.
  bool stateful = false;
};

// Parameters or inputs that must be refused with a message that contains `expect`.
struct BadSample {
  std::string prototxt;
  std::vector<std::vector<int64_t>> input_shapes;
  std::string expect;
  int outputs = 1;
};

// Facts about a type that no parameter changes; those that parameters change are in LayerInfo.
// Aliases have those of their type.
struct LayerTraits {
  // Loses little on blobs of f16 or bf16: its implementations for GPUs get variants on these.
  bool fits_16_bits = false;
  // Its implementations for GPUs multiply matrices (CudaGemm): they get variants in TF32.
  bool multiplies_matrices = false;
  bool computes_on_bytes = false;  // has implementations on kInt8, in some builds
  bool fed_by_program = false;     // a program gives its batches: they cannot be read again
};

struct LayerType {
  std::string name;      // as in `type: "..."`
  std::string category;  // family folder, for the reference
  std::string summary;   // one sentence: what it is for
  std::string formula;   // plain text
  // For docs/layers.md, one text each: "x: N x C x H x W, any number of axes from 2".
  std::vector<std::string> input_docs = {};
  std::vector<std::string> output_docs = {};
  std::vector<std::string> learned_docs = {};  // in the order of the blobs
  std::vector<std::string> differences = {};   // from Caffe, or from the fork that it comes from
  std::string origin = "Caffe";                // "Caffe", "SSD", "SegNet", "Crema"
  std::string alias_of = {};                   // another name of that type
  std::vector<std::string> param_fields;       // messages of LayerParameter that it reads
  // Fields of these messages that it does not read ("data_param.mirror"); setting one warns.
  std::vector<std::string> unread_fields = {};
  LayerTraits traits = {};
  Arity inputs;
  Arity outputs;
  bool outputs_equal_inputs = false;  // as many tops as bottoms
  // Weight of output 0 in the total loss when the text gives none.
  double default_loss_weight = 0;
  std::function<std::unique_ptr<const Layer>(const LayerParameter&)> make;
  std::vector<Implementation>
      implementations;  // in order of preference; a native CPU implementation is appended by Add
  std::vector<LayerSample> samples;
  std::vector<BadSample> bad_samples;
  // For the reference, bottoms and tops too, a line each: where samples would need files. Others
  // are shown by their first sample.
  std::string example = {};
  // Brings the blobs of a layer of a file (any age, any fork) into the order and meaning of
  // `learned_docs` before they are matched; empty: they are taken as they are. May throw.
  std::function<void(const LayerParameter& written, const LayerInfo& info,
                     std::vector<BlobProto>* blobs)>
      adapt_blobs = {};
};

// Built by main, then read only. Thread safety: const once filled.
class Registry {
 public:
  // Throws kInternal for a name that is taken.
  void Add(LayerType type);
  // Another name of a type that is there: the same in everything but its name and summary. Throws
  // kInternal for an unknown type or a name that is taken.
  void AddAlias(const std::string& name, std::string_view of);
  // Puts an implementation in front of the implementations of that device that are there. Throws
  // kInternal for an unknown type.
  void AddImplementation(std::string_view type, Implementation implementation);
  // Null when there is none of that name.
  const LayerType* Find(std::string_view type) const;
  std::vector<std::string> Names() const;  // sorted

 private:
  std::map<std::string, LayerType, std::less<>> types_;
};

// All built-in layers (src/layers/builtin_layers.cc), with CUDA implementations where they were
// built.
Registry BuiltinRegistry();

}  // namespace crema
