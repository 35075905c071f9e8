// What layer types exist, what implements them, and how they are tested.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/layer.h"

namespace crema {

// How many bottoms or tops a type takes.
struct Arity {
  static constexpr int kAny = 1 << 20;
  int min = 1;
  int max = 1;
};

class Implementation;  // graph/implementation.h

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
  Phase phase = Phase{};  // TRAIN
  bool gradient = true;   // false: the layer has none (Accuracy, data)
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
  bool computes_on_bytes = false;  // has implementations on bytes, in some builds
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
  // In order of preference; a native CPU implementation is appended by Add.
  std::vector<std::shared_ptr<const Implementation>> implementations;
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
  void AddImplementation(std::string_view type,
                         std::shared_ptr<const Implementation> implementation);
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
