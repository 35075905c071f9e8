// What a session on a GPU has besides; of the files that implement Session.
#pragma once

#include <cstdint>
#include <string>

#include "core/tensor.h"
#include "runtime/captured_graph.h"
#include "runtime/session.h"

namespace crema {

struct Session::OnGpuState {
  // In memory of the device: the number of the pass, which random draws read, and its loss.
  struct Pass {
    uint64_t step;
    double loss;
  };
  Tensor memory;           // of a Pass
  uint64_t next_step = 0;  // what the device will count to; of use where `counts`
  bool counts = false;

  size_t first_kept = 0;  // the layer behind the last source: from there on, passes are kept
  CapturedGraph forward, backward;
  const double* scale_place = nullptr;

  Pass* pass() { return static_cast<Pass*>(memory.view().raw()); }
};

}  // namespace crema
