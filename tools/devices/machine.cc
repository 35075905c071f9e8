#include "devices/machine.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

#include "core/error.h"
#include "core/exec_context.h"
#include "core/machine_limits.h"
#include "math/library_versions.h"

namespace crema::tools {
namespace {

std::vector<std::string> CpuFeatures() {
  std::vector<std::string> features;
#if defined(__x86_64__) && defined(__GNUC__)
  const auto add = [&](const char* name, bool has) {
    if (has) features.emplace_back(name);
  };
  add("avx2", __builtin_cpu_supports("avx2") != 0);
  add("fma", __builtin_cpu_supports("fma") != 0);
  add("avx512f", __builtin_cpu_supports("avx512f") != 0);
  add("avx512bw", __builtin_cpu_supports("avx512bw") != 0);
  add("avx512vnni", __builtin_cpu_supports("avx512vnni") != 0);
  add("avx512bf16", __builtin_cpu_supports("avx512bf16") != 0);
  // By number: not every compiler knows these names.
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return features;
  add("avx512fp16", (d & 1U << 23) != 0);
  add("amx-tile", (d & 1U << 24) != 0);
  add("amx-bf16", (d & 1U << 22) != 0);
  add("amx-int8", (d & 1U << 25) != 0);
#endif
  return features;
}

CpuDescription LookAtCpu(bool measure) {
  CpuDescription cpu{.name = ProcessorName(),
                     .processors = AvailableProcessors(),
                     .features = CpuFeatures(),
                     .memory = TotalMemory(),
                     .available = AvailableMemory(),
                     .libraries = LibraryVersions(),
                     .peak = {}};
  if (!measure) return cpu;
  cpu.peak =
      Roofline{.gflops = MeasurePeakGflops(cpu.processors), .gbs = MeasurePeakGbs(cpu.processors)};
  return cpu;
}

GpuDescription LookAtGpu(int ordinal, bool measure) {
  GpuDescription gpu;
  try {
    gpu.info = InfoOfGpu(ordinal);
    if (measure) gpu.rates = MeasureGpuRates(ordinal);
  } catch (const Error& error) {
    gpu.problem = error.what();
  }
  return gpu;
}

}  // namespace

Machine DescribeMachine(bool measure) {
  Machine machine{
      .cpu = LookAtCpu(measure), .gpus = {}, .no_gpu = WhyNoGpu(), .libraries = GpuLibraries()};
  for (int i = 0; i < GpuCount(); ++i) machine.gpus.push_back(LookAtGpu(i, measure));
  return machine;
}

}  // namespace crema::tools
