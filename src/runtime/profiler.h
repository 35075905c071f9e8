// Times the layers of a net.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/session.h"

namespace crema {

// What the process has asked the heap for since it began.
struct HeapUse {
  int64_t allocations = 0;
  int64_t bytes = 0;
};

struct ProfileOptions {
  int64_t iterations = 50;  // timed passes
  int64_t warmup = 5;       // passes before them, not timed
  // Asked before and after each layer; empty: allocations are not counted. The library cannot
  // count: that takes a program that replaces malloc.
  std::function<HeapUse()> heap_use = {};
};

// When a run began and ended, in nanoseconds from the start of the profile.
struct TimeSpan {
  int64_t begin = 0;
  int64_t end = 0;
};

// Of one layer, or of the whole net, in one direction.
struct PassProfile {
  std::vector<TimeSpan> runs;  // a timed iteration each; empty: it does not run
  double median = 0;           // seconds
  double p95 = 0;              // 95 % of the runs took no longer
  double total = 0;            // of all runs
  int64_t macs = 0;            // multiply-adds of products, one run
  int64_t bytes = 0;           // of tensors read and written, one run (the last)
  HeapUse heap;                // of all runs

  double gflops() const;  // 1e9 operations a second, at the median; 0 where there are no products
  double gbs() const;     // 1e9 bytes a second, at the median
};

struct LayerProfile {
  size_t layer = 0;  // of the plan
  PassProfile forward;
  PassProfile backward;
  PassProfile recompute;  // forward again, in the backward pass; no runs when it keeps its outputs

  double total() const { return forward.total + backward.total + recompute.total; }
};

struct Profile {
  std::vector<LayerProfile> layers;  // those that run, in running order
  PassProfile forward;               // whole passes; macs and bytes are the sums of the layers
  PassProfile backward;              // with what runs again; no runs when the plan has none
  PassProfile iteration;             // forward and backward
  int64_t batch = 0;                 // items a pass: the first extent of the first source; 0: none
  bool heap_counted = false;

  double total() const { return forward.total + backward.total; }
  double images_per_second() const;  // at the median iteration; 0 without a batch
};

// Runs warmup + iterations passes (forward, and backward where the plan has it; learned gradients
// are zeroed between them, untimed). Replaces the observer of the session by none. Throws what the
// layers throw, and kInvalidArgument for less than one iteration, a negative warm-up, or more runs
// than can be kept.
Profile ProfileSession(Session* session, const ProfileOptions& options);

}  // namespace crema
