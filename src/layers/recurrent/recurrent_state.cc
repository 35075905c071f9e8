#include "layers/recurrent/recurrent_state.h"

#include <bit>

#include "core/error.h"
#include "core/strings.h"

namespace crema {

void RecurrentState::Save(LayerState* state) const {
  state->add_counters(static_cast<uint64_t>(streams()));
  for (double value : values_) state->add_counters(std::bit_cast<uint64_t>(value));
}

void RecurrentState::Restore(const LayerState& state) {
  values_.clear();
  if (state.counters().empty()) return;  // the snapshot says nothing: begin with zeros
  const int64_t count = state.counters_size() - 1;
  const auto expected = static_cast<uint64_t>(count / per_stream_);
  if (count % per_stream_ != 0 || state.counters(0) != expected) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the snapshot holds ", count, " values of hidden states for ", state.counters(0),
                " streams, but this layer has ", per_stream_, " a stream"),
         {.layer = layer_});
  }
  for (int i = 1; i <= count; ++i) values_.push_back(std::bit_cast<double>(state.counters(i)));
}

}  // namespace crema
