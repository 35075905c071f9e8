// A fake of cuDNN's backend API that needs no GPU: it stores descriptors, rejects those that lack
// an attribute or have it with another type or count, and computes convolutions and their epilogues
// in plain loops, from sizes and strides.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "math/cuda/cudnn.h"

namespace crema::test {

struct FakeEngine {
  int64_t number = 0;
  int64_t workspace = 0;  // bytes
  std::vector<cudnnBackendNumericalNote_t> notes = {};
  std::string refusal = {};  // of plans with it; empty: none
  int milliseconds = 0;      // that a run takes longer
  bool fails = false;        // when it is run
};

// Behaviour of the stand-in. Tests change it between uses; there is one, as there is one cuDNN.
struct FakeCudnnRules {
  std::vector<FakeEngine> engines = {{.number = 7, .workspace = 256}};
  std::vector<FakeEngine> fallbacks = {};
  std::optional<cudnnBackendHeurMode_t> refused_mode = {};  // of heuristics
  // Why a graph of these operations ("forward", "to input", "to weights", "add", "relu") is
  // refused; empty: it is not.
  std::function<std::string(const std::vector<std::string>&)> refuse = {};
};

// Counters of calls.
struct FakeCudnnCounts {
  int descriptors = 0;  // that live
  int handles = 0;
  int graphs = 0;                    // that were finalized
  std::map<int64_t, int> runs = {};  // by engine
};

FakeCudnnRules& FakeRules();
FakeCudnnCounts& FakeCounts();
// Its functions; those of single operations are null.
const CudnnLibrary& FakeCudnn();

}  // namespace crema::test
