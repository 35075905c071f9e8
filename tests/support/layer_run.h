// Runs one layer alone, as a session would, and watches what it does to memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "graph/registry.h"

namespace crema::test {

using Values = std::vector<double>;

// The LayerParameter of a sample: its text plus name "sample" and blob names in0, out0, ...
// Throws kInvalidArgument when the text does not parse.
LayerParameter MakeParameter(const LayerType& type, const std::string& prototxt, size_t inputs,
                             int outputs);

// A layer made from a sample, with what Infer says for one element type.
class LayerCase {
 public:
  LayerCase(const LayerType& type, const LayerSample& sample, DType dtype);
  LayerCase(const LayerCase&) = delete;
  LayerCase& operator=(const LayerCase&) = delete;

  const LayerType& type() const { return type_; }
  const LayerSample& sample() const { return sample_; }
  const Layer& layer() const { return *layer_; }
  const InferContext& infer_context() const { return context_; }
  const LayerInfo& info() const { return info_; }
  // Whether input i may receive a gradient.
  bool Differentiable(size_t input) const;

 private:
  const LayerType& type_;
  const LayerSample& sample_;
  std::vector<BlobSpec> inputs_;
  std::unique_ptr<const Layer> layer_;
  InferContext context_;
  LayerInfo info_;
};

// What a case is fed; f32 can hold each value.
struct CaseValues {
  std::vector<Values> inputs;
  std::vector<Values> learned;
  std::vector<Values> output_grads;
};
// Seeded by the names of type and sample.
CaseValues DrawValues(const LayerCase& layer_case);

struct RunOptions {
  int threads = 1;
  bool backward = false;
  bool save = true;       // false: Forward is told that no backward pass follows
  bool in_place = false;  // output 0 lies on input 0, and their gradients too
  // Whose gradients are wanted: of all inputs, of none, or of the one with this index.
  int only_input = kAllInputs;
  bool learned_grads = true;
  const Kernel* kernel = nullptr;  // null: the native methods

  static constexpr int kAllInputs = -1;
  static constexpr int kNoInput = -2;
};

struct RunResult {
  std::vector<Values> outputs;
  std::vector<Values> input_grads;    // empty: not wanted
  std::vector<Values> learned_grads;  // what was added
  std::vector<std::string> failures;  // broken promises: bounds, constness, unwritten elements
};

// Thread safety: several threads may run one case.
RunResult RunLayer(const LayerCase& layer_case, const CaseValues& values,
                   const RunOptions& options);

}  // namespace crema::test
