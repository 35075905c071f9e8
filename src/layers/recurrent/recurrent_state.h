// The hidden states that one batch hands to the next.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "graph/layer.h"

namespace crema {

// States (h, and c of the LSTM) of every stream behind the last batch: states x streams x hidden.
// On a GPU they lie there, in f32. A snapshot keeps them as LayerState.counters: the number of
// streams, then the bits of each value as f64. Thread safety: one thread at a time.
class RecurrentState final : public LayerSessionState {
 public:
  // `per_stream` values belong to a stream. `layer` is its name, for messages. The queue and the
  // allocator of the context must outlive this.
  RecurrentState(std::string layer, int64_t per_stream, const ExecContext& context)
      : layer_(std::move(layer)),
        per_stream_(per_stream),
        queue_(context.queue()),
        allocator_(context.allocator()) {}

  // 0 before the first batch.
  int64_t streams() const { return streams_; }

  // T is float or double; `values` has per_stream * streams elements.
  template <typename T>
  void Load(T* values) const {
    for (size_t i = 0; i < values_.size(); ++i) values[i] = static_cast<T>(values_[i]);
  }
  template <typename T>
  void Store(const T* values, int64_t streams) {
    values_.assign(values, values + per_stream_ * streams);
    streams_ = streams;
  }

  // On a GPU: the states, and where those behind the next batch go, which has `streams` of them.
  // The place may be the same: what is there is to be copied first.
  const float* OnDevice();
  float* PlaceOnDevice(int64_t streams);

  void Save(LayerState* state) const override;
  void Restore(const LayerState& state) override;

 private:
  std::vector<double> Values() const;

  const std::string layer_;
  const int64_t per_stream_;
  DeviceQueue* const queue_;  // null on the CPU
  Allocator& allocator_;
  int64_t streams_ = 0;
  std::vector<double> values_;  // on a GPU: restored, and not taken there yet; else empty
  Tensor on_device_;
};

}  // namespace crema
