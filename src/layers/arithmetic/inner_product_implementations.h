// Implementations of InnerProduct besides the native one.
#pragma once

#include <vector>

#include "graph/has_packed_weights.h"
#include "graph/implementation.h"
#include "math/packed_product.h"

namespace crema {

// Returns the product of an InnerProduct layer, on floats or (kU8) rows of bytes. Requires oneDNN.
PackedProductConfig PackedProductConfigOf(const OpDesc& query, DType type);

// Implementation::CanFuse of implementations by PackedProduct on floats: ReLUs, or without backward
// one other activation.
bool CanFuseActivation(const OpDesc& query);

struct PackedProductState : ImplementationState, HasPackedWeights {
  explicit PackedProductState(const PackedProductConfig& config) : product(config) {}
  SharedPackedWeights ExportPacked() const override { return product.ExportPacked(); }
  bool ImportPacked(const SharedPackedWeights& shared) override {
    return product.ImportPacked(shared);
  }

  PackedProduct product;
};

// Returns implementation "onednn bf16": forward passes with fixed weights (Session::FixWeights),
// which it stores rounded; other passes run as in the native implementation, unless it fuses
// another activation than ReLU.
ImplementationPtr BFloat16InnerProductImplementation();

// Implementations "int8" and "int8, int8 input".
std::vector<ImplementationPtr> Int8InnerProductImplementations();

}  // namespace crema
