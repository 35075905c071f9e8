// Hidden states that are carried from one batch to the next.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "graph/layer.h"

namespace crema {

// States (h, and c of the LSTM) of all streams after the last batch: states x streams x hidden. On
// a GPU they are in device memory, as f32. A snapshot stores them as LayerState.counters: the
// number of streams, then the bits of each value as f64. Thread safety: one thread at a time.
class RecurrentState final : public LayerSessionState {
 public:
  // A stream has `per_stream` values. `layer` is the layer's name, for messages. The queue and the
  // allocator of the context must outlive this object.
  RecurrentState(std::string layer, int64_t per_stream, const ExecContext& context)
      : layer_(std::move(layer)),
        per_stream_(per_stream),
        queue_(context.queue()),
        allocator_(context.allocator()) {}

  // Returns the number of streams of the last batch, 0 before the first.
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

  // On a GPU: return the states, and the memory for the states after the next batch of `streams`
  // streams. Both may be the same memory: copy the old states first.
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
  std::vector<double> values_;  // on a GPU: restored values not yet uploaded; else empty
  Tensor on_device_;
};

}  // namespace crema
