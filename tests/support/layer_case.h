// A layer of a sample, and its input values.
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
  // Returns true if input i may receive a gradient.
  bool Differentiable(size_t input) const;

 private:
  const LayerType& type_;
  const LayerSample& sample_;
  std::vector<BlobSpec> inputs_;
  std::unique_ptr<const Layer> layer_;
  InferContext context_;
  LayerInfo info_;
};

// The values of a case; f32 can represent each.
struct CaseValues {
  std::vector<Values> inputs;
  std::vector<Values> parameters;
  std::vector<Values> output_grads;
};
// Seeded by the names of type and sample.
CaseValues DrawValues(const LayerCase& layer_case);

}  // namespace crema::test
