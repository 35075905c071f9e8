// What the command devices says.
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
  int processors = 0;                 // that this process may use
  std::vector<std::string> features;  // that kernels are chosen by
  int64_t memory = 0;                 // bytes; 0: not known
  int64_t available = 0;
  std::string libraries;
  std::optional<Roofline> peak;  // of all processors; unset: not measured
};

struct GpuDescription {
  GpuInfo info;
  std::optional<GpuRates> rates;
  std::string problem;  // why nothing more is known; empty: all is
};

struct Machine {
  CpuDescription cpu;
  std::vector<GpuDescription> gpus;
  std::string no_gpu;                                          // why there is none; empty: there is
  std::vector<std::pair<std::string, std::string>> libraries;  // of GPUs: name and version
};

// A GPU that fails while it is looked at is described as far as it went.
Machine LookAtMachine(bool measure);

// Both end with a new line.
std::string TextOf(const Machine& machine);
std::string JsonOf(const Machine& machine);

}  // namespace crema::tools
