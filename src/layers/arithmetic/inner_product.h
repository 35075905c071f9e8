// The layer InnerProduct and its implementations.
#pragma once

#include <cstddef>
#include <vector>

#include "crema.pb.h"
#include "graph/implementation.h"
#include "layers/fused_relu.h"
#include "math/inner_product.h"

namespace crema {

// Y = X W^T + b with X of rows x columns. Thread safety: const after construction.
class InnerProduct final : public Layer {
 public:
  explicit InnerProduct(const LayerParameter& param);

  LayerInfo Infer(const InferContext& context) const override;
  void Forward(const ForwardArgs& args) const override;
  void Backward(const BackwardArgs& args) const override;
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info, int) const override;

  bool has_bias() const { return ip_.bias_term(); }
  bool transposed() const { return ip_.transpose(); }
  int64_t outputs() const { return ip_.num_output(); }
  // Returns the first axis of the columns; the axes before it are rows.
  int Axis(const Shape& input) const;
  InnerProductSize SizeOf(const Shape& input) const;

 private:
  const InnerProductParameter& ip_;
};

// Returns implementations "onednn" and "onednn, blocked input". Only in builds with oneDNN.
std::vector<ImplementationPtr> OneDnnInnerProductImplementations();

}  // namespace crema
