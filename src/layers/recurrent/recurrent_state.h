// The hidden states that one batch hands to the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/layer.h"

namespace crema {

// States (h, and c of the LSTM) of every stream behind the last batch. A snapshot keeps them as
// LayerState.counters: the number of streams, then the bits of each value as f64.
// Thread safety: one thread at a time.
class RecurrentState final : public LayerSessionState {
 public:
  // `per_stream` values belong to a stream. `layer` is its name, for messages.
  RecurrentState(std::string layer, int64_t per_stream)
      : layer_(std::move(layer)), per_stream_(per_stream) {}

  // 0 before the first batch.
  int64_t streams() const { return static_cast<int64_t>(values_.size()) / per_stream_; }

  // T is float or double; `values` has per_stream * streams elements.
  template <typename T>
  void Load(T* values) const {
    for (size_t i = 0; i < values_.size(); ++i) values[i] = static_cast<T>(values_[i]);
  }
  template <typename T>
  void Store(const T* values, int64_t streams) {
    values_.assign(values, values + per_stream_ * streams);
  }

  void Save(LayerState* state) const override;
  void Restore(const LayerState& state) override;

 private:
  const std::string layer_;
  const int64_t per_stream_;
  std::vector<double> values_;
};

}  // namespace crema
