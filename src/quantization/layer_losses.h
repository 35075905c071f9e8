// Internal: measures the quantization error of each layer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "plan/plan.h"
#include "runtime/session.h"

namespace crema {

// Sums of squares.
struct Loss {
  double signal = 0;
  double noise = 0;

  void Add(std::span<const float> right, std::span<const float> other);
  double SnrDb() const;          // infinite without noise; NaN without signal
  double RelativeError() const;  // NaN without signal
};

// Returns true for a layer with an int8 implementation.
bool HasProducts(const LayerType& type);

// Observes a single-precision session: measures the loss of each layer alone with weights and input
// as bytes, by layer of the plan. Thread safety: one thread.
class OwnLosses final : public LayerObserver {
 public:
  // `ranges`: by value of the plan; both must outlive this.
  OwnLosses(const Plan& plan, const std::vector<Int8Range>& ranges)
      : plan_(plan), ranges_(ranges), losses_(plan.layers.size()) {}

  void AfterForward(size_t layer, const ForwardArgs& args) override;
  const Loss& Of(size_t layer) const { return losses_[layer]; }

 private:
  const Plan& plan_;
  const std::vector<Int8Range>& ranges_;
  std::vector<Loss> losses_;
};

// Observes an int8 session: measures the loss of each blob relative to a session that ran the same
// batch in single precision. Thread safety: one thread.
class AccumulatedLosses final : public LayerObserver {
 public:
  // `plan`: of the observed session. `right` has already run, has every blob (optimize = false),
  // and must outlive this.
  AccumulatedLosses(const Plan& plan, const Session& right);

  void AfterForward(size_t layer, const ForwardArgs& args) override;
  // Loss of each layer's output, including the layers fused into it, by layer name.
  const std::map<std::string, Loss>& by_layer() const { return by_layer_; }

 private:
  const Plan& plan_;
  const Session& right_;
  std::map<std::string, Loss> by_layer_;
};

}  // namespace crema
