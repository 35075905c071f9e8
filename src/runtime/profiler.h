// Times the layers of a net.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/session.h"

namespace crema {

// Heap allocations of the process since its start.
struct HeapUse {
  int64_t allocations = 0;
  int64_t bytes = 0;
};

struct ProfileOptions {
  int64_t iterations = 50;  // timed passes
  int64_t warmup = 5;       // passes before them, not timed
  // Called before and after each layer; empty: allocations are not counted. Counting requires a
  // program that replaces malloc.
  std::function<HeapUse()> heap_use = {};
};

// Begin and end of a run, in nanoseconds from the start of the profile.
struct TimeSpan {
  int64_t begin = 0;
  int64_t end = 0;
};

// Statistics of one layer, or of the whole net, in one direction.
struct PassProfile {
  std::vector<TimeSpan> runs;  // one for each timed iteration; empty: it does not run
  double median = 0;           // seconds
  double p95 = 0;              // 95 % of the runs are at most this long
  double total = 0;            // of all runs
  int64_t macs = 0;            // multiply-adds of products in one run
  int64_t bytes = 0;           // of tensors read and written, one run (the last)
  HeapUse heap;                // of all runs

  double gflops() const;  // 1e9 operations a second, at the median; 0 without products
  double gbs() const;     // 1e9 bytes a second, at the median
};

struct LayerProfile {
  size_t layer = 0;  // of the plan
  PassProfile forward;
  PassProfile backward;
  PassProfile recompute;  // of recomputation in the backward pass; no runs if outputs are kept

  double total() const { return forward.total + backward.total + recompute.total; }
};

struct Profile {
  std::vector<LayerProfile> layers;  // those that run, in running order
  PassProfile forward;               // whole passes; macs and bytes are the sums of the layers
  PassProfile backward;              // includes recomputation; no runs without backward
  PassProfile iteration;             // forward and backward
  int64_t batch = 0;                 // items per pass: the batch size of the first source; 0: none
  bool heap_counted = false;

  double total() const { return forward.total + backward.total; }
  double images_per_second() const;  // at the median iteration; 0 without a batch
};

// Runs warmup + iterations passes (forward, and backward if the plan has it; parameter gradients
// are zeroed between them, untimed). Resets the observer of the session to none. Throws the errors
// of layers, and kInvalidArgument for less than one iteration, a negative warm-up, or more runs
// than can be recorded.
Profile ProfileSession(Session* session, const ProfileOptions& options);

}  // namespace crema
