// The layer types, their implementations, and samples to test them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/layer.h"

namespace crema {

// The number of bottoms or tops of a type.
struct Arity {
  static constexpr int kAny = 1 << 20;
  int min = 1;
  int max = 1;
};

class Implementation;  // graph/implementation.h

// One input of a sample, as the generic checker draws it.
struct SampleInput {
  std::vector<int64_t> shape;
  double low = -1;
  double high = 1;
  bool integer = false;  // whole numbers low..high (labels)
  // Values closer than 0.05 to this one are moved away: the layer has a kink there.
  bool has_kink = false;
  double kink = 0;
  bool distinct = false;  // all values differ by at least 0.05 (max pooling, Eltwise MAX)
};

// A case that the generic checker runs: gradient, in place, canaries, two threads.
struct LayerSample {
  std::string name;
  std::string prototxt = {};  // fields of the layer besides name, type, bottom and top
  std::vector<SampleInput> inputs;
  int outputs = 1;
  Phase phase = Phase{};  // TRAIN
  bool gradient = true;   // false: the layer has none (Accuracy, data)
  // false: it adds its own update rule to parameter gradients, not the derivative
  // (CenterLoss); Backward runs, values are not compared with numeric ones.
  bool parameter_gradient = true;
  // Forward updates parameters or sources, so running again gives other outputs.
  bool stateful = false;
};

// Parameters or inputs that must be rejected with a message that contains `expect`.
struct BadSample {
  std::string prototxt = {};
  std::vector<std::vector<int64_t>> input_shapes;
  std::string expect;
  int outputs = 1;
};

// Facts about a type that do not depend on parameters; those that do are in LayerInfo. Aliases have
// those of their type.
struct LayerTraits {
  // Loses little accuracy on f16 or bf16 blobs: its GPU implementations get variants for them.
  bool fits_16_bits = false;
  // Its GPU implementations multiply matrices (CudaGemm): they get variants in TF32.
  bool multiplies_matrices = false;
  bool computes_on_bytes = false;  // has implementations on bytes, in some builds
  bool fed_by_program = false;     // a program feeds its batches: they cannot be read again
};

// A loaded shared library with layer types; graph/plugin.h loads it.
struct PluginFacts {
  std::string name;
  std::string version;
  std::string path;
  std::string sha256;  // of the file, hexadecimal
};

struct LayerType {
  std::string name;      // as in `type: "..."`
  std::string category;  // family folder, for the reference
  std::string summary;   // one sentence: its purpose
  std::string formula;   // plain text
  // For docs/layers.md, one text each: "x: N x C x H x W, any number of axes from 2".
  std::vector<std::string> input_docs = {};
  std::vector<std::string> output_docs = {};
  std::vector<std::string> parameter_docs = {};  // in the order of the blobs
  std::vector<std::string> differences = {};     // from Caffe, or from the fork of its origin
  std::string origin = "Caffe";                  // "Caffe", "SSD", "SegNet", "Crema"
  std::string alias_of = {};                     // another name of that type
  std::vector<std::string> param_fields;         // messages of LayerParameter that it reads
  // Fields of these messages that it ignores ("data_param.mirror"); setting one warns.
  std::vector<std::string> unread_fields = {};
  LayerTraits traits = {};
  Arity inputs;
  Arity outputs;
  bool outputs_equal_inputs = false;  // as many tops as bottoms
  // Weight of output 0 in the total loss if the text has none.
  double default_loss_weight = 0;
  std::function<std::unique_ptr<const Layer>(const LayerParameter&)> make;
  // In order of preference. Add appends a native CPU implementation if there is none.
  std::vector<std::shared_ptr<const Implementation>> implementations;
  std::vector<LayerSample> samples;
  std::vector<BadSample> bad_samples;
  // The example in the reference, with bottoms and tops, one line each, for types whose samples
  // would need files. Others show their first sample.
  std::string example = {};
  std::shared_ptr<const PluginFacts> plugin = {};  // that it comes from; null: built in
  // Converts the blobs of a layer of a file (of any version or fork) to the order and meaning of
  // `parameter_docs` before they are matched; empty: no conversion. May throw.
  std::function<void(const LayerParameter& written, const LayerInfo& info,
                     std::vector<BlobProto>* blobs)>
      adapt_blobs = {};
};

// Filled by main, then only read. Thread safety: const once filled.
class Registry {
 public:
  // Throws kInternal for an existing name.
  void Add(LayerType type);
  // Adds another name of an existing type: only its name and summary differ. Throws kInternal for
  // an unknown type or an existing name.
  void AddAlias(const std::string& name, std::string_view of);
  // Inserts an implementation before the others of its device. Throws kInternal for an unknown
  // type.
  void AddImplementation(std::string_view type,
                         std::shared_ptr<const Implementation> implementation);
  // Returns null for an unknown name.
  const LayerType* Find(std::string_view type) const;
  std::vector<std::string> Names() const;  // sorted

 private:
  std::map<std::string, LayerType, std::less<>> types_;
};

// Returns all built-in layers (src/layers/builtin_layers.cc), with CUDA implementations if they
// were built.
Registry BuiltinRegistry();

}  // namespace crema
