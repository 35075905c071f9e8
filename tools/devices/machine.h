// Collects the output of `devices`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/gpu.h"
#include "runtime/roofline.h"

namespace crema::tools {

struct CpuDescription {
  std::string name;
  int processors = 0;                 // available to this process
  std::vector<std::string> features;  // used to select kernels
  int64_t memory = 0;                 // bytes; 0: unknown
  int64_t available = 0;
  std::string libraries;
  std::optional<Roofline> peak;  // all processors together; unset: not measured
};

struct GpuDescription {
  GpuInfo info;
  std::optional<GpuRates> rates;
  std::string problem;  // why details are missing; empty: none are
};

struct Machine {
  CpuDescription cpu;
  std::vector<GpuDescription> gpus;
  std::string no_gpu;  // why there is no GPU; empty: there is one
  std::vector<std::pair<std::string, std::string>> libraries;  // of GPUs: name and version
};

// A GPU that fails during the query is described as far as possible.
Machine DescribeMachine(bool measure);

// Both end with a newline.
std::string TextOf(const Machine& machine);
std::string JsonOf(const Machine& machine);

}  // namespace crema::tools
