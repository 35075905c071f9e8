// Internal: what rounding to bytes loses, layer by layer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "runtime/layer_observer.h"
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

// A layer whose products can be of bytes.
bool HasProducts(const LayerType& type);

// While a session in single precision runs: the loss of each layer alone, of its weights and its
// input as bytes, by layer of the plan. Thread safety: one thread.
class OwnLosses final : public LayerObserver {
 public:
  // `ranges`: by value of the plan; both must live as long.
  OwnLosses(const Plan& plan, const std::vector<Int8Range>& ranges)
      : plan_(plan), ranges_(ranges), losses_(plan.layers.size()) {}

  void AfterForward(size_t layer, const ForwardArgs& args) override;
  const Loss& Of(size_t layer) const { return losses_[layer]; }

 private:
  const Plan& plan_;
  const std::vector<Int8Range>& ranges_;
  std::vector<Loss> losses_;
};

// While a session of the same net with its rows on bytes runs: the loss of each blob against what
// another session made of the same batch. Thread safety: one thread.
class AccumulatedLosses final : public LayerObserver {
 public:
  // `plan`: of the session that is observed. `right` has run already, has every blob (optimize =
  // false), and must live as long.
  AccumulatedLosses(const Plan& plan, const Session& right);

  void AfterForward(size_t layer, const ForwardArgs& args) override;
  // By layer of the plan and its name: of what it gave, with the layers that it did besides.
  const std::map<std::string, Loss>& by_layer() const { return by_layer_; }

 private:
  const Plan& plan_;
  const Session& right_;
  std::map<std::string, Loss> by_layer_;
};

}  // namespace crema
