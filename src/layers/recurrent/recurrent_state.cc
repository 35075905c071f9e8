#include "layers/recurrent/recurrent_state.h"

#include <bit>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {

float* RecurrentState::PlaceOnDevice(int64_t streams) {
  const int64_t count = per_stream_ * streams;
  if (on_device_.view().empty() || on_device_.shape().count() < count) {
    on_device_ = Tensor(Shape({count}), DType::kF32, allocator_);
  }
  streams_ = streams;
  values_.clear();
  return on_device_.view().data<float>();
}

const float* RecurrentState::OnDevice() {
  if (!values_.empty()) {
    const std::vector<float> restored(values_.begin(), values_.end());
    queue_->Upload(PlaceOnDevice(streams_), restored.data(), restored.size() * sizeof(float));
  }
  return on_device_.view().empty() ? nullptr : on_device_.view().data<float>();
}

std::vector<double> RecurrentState::Values() const {
  if (queue_ == nullptr || !values_.empty() || streams_ == 0) return values_;
  std::vector<float> values(static_cast<size_t>(per_stream_ * streams_));
  queue_->Download(values.data(), on_device_.view().raw(), values.size() * sizeof(float));
  return {values.begin(), values.end()};
}

void RecurrentState::Save(LayerState* state) const {
  state->add_counters(static_cast<uint64_t>(streams()));
  for (double value : Values()) state->add_counters(std::bit_cast<uint64_t>(value));
}

void RecurrentState::Restore(const LayerState& state) {
  values_.clear();
  streams_ = 0;
  if (state.counters().empty()) return;  // no states in the snapshot: begin with zeros
  const int64_t count = state.counters_size() - 1;
  const auto expected = static_cast<uint64_t>(count / per_stream_);
  if (count % per_stream_ != 0 || state.counters(0) != expected) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the snapshot holds ", count, " values of hidden states for ", state.counters(0),
                " streams, but this layer has ", per_stream_, " a stream"),
         {.layer = layer_});
  }
  streams_ = static_cast<int64_t>(expected);
  for (int i = 1; i <= count; ++i) values_.push_back(std::bit_cast<double>(state.counters(i)));
}

}  // namespace crema
