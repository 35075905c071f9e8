// Prints a machine as text and as JSON.
#include <cstdio>

#include "common/json.h"
#include "core/strings.h"
#include "devices/machine.h"

namespace crema::tools {
namespace {

std::string Rounded(double value, const char* unit) {
  char text[48];
  std::snprintf(text, sizeof(text), value < 100 ? "%.1f %s" : "%.0f %s", value, unit);
  return text;
}

std::string Gibibytes(int64_t bytes) {
  return Rounded(static_cast<double>(bytes) / (int64_t{1} << 30), "GiB");
}

std::string Teraflops(double gflops) {
  return gflops == 0 ? "none" : Rounded(gflops / 1000, "TFLOP/s");
}

std::string TextOfCpu(const CpuDescription& cpu) {
  std::string text = StrCat(
      "CPU: ", cpu.name, "\n  processors: ", cpu.processors,
      "\n  features: ", cpu.features.empty() ? "none that kernels use" : Join(cpu.features, " "));
  text += StrCat("\n  memory: ", Gibibytes(cpu.memory), ", ", Gibibytes(cpu.available),
                 " available\n  libraries: ", cpu.libraries, "\n");
  if (!cpu.peak) return text;
  return text + StrCat("  f32 products: ", Rounded(cpu.peak->gflops, "GFLOP/s"),
                       ", memory: ", Rounded(cpu.peak->gbs, "GB/s"), "\n");
}

std::string TextOfGpu(size_t ordinal, const GpuDescription& gpu) {
  const GpuInfo& info = gpu.info;
  std::string text = StrCat("GPU ", ordinal, ": ", info.name);
  if (!info.name.empty()) {
    text += StrCat(", compute capability ", info.major, ".", info.minor, ", ", info.processors,
                   " multiprocessors\n  memory: ", Gibibytes(info.memory), ", ",
                   Gibibytes(info.free), " free");
  }
  text += "\n";
  if (!gpu.problem.empty()) text += StrCat("  ", gpu.problem, "\n");
  if (!gpu.rates) return text;
  const GpuRates& rates = *gpu.rates;
  return text + StrCat("  products: f32 ", Teraflops(rates.f32_gflops), ", TF32 ",
                       Teraflops(rates.tf32_gflops), ", bf16 ", Teraflops(rates.bf16_gflops),
                       "\n  memory: ", Rounded(rates.copy_gbs, "GB/s"), ", from the host ",
                       Rounded(rates.to_gpu_gbs, "GB/s"), ", to the host ",
                       Rounded(rates.from_gpu_gbs, "GB/s"), "\n");
}

// Collects the members of a JSON object.
class Members {
 public:
  Members& Raw(const std::string& name, const std::string& value) {
    text_ += StrCat(text_.empty() ? "" : ", ", JsonString(name), ": ", value);
    return *this;
  }
  Members& Text(const std::string& name, const std::string& value) {
    return Raw(name, JsonString(value));
  }
  Members& Number(const std::string& name, double value) { return Raw(name, JsonNumber(value)); }
  Members& Count(const std::string& name, int64_t value) { return Raw(name, StrCat(value)); }
  std::string Object() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

std::string JsonArray(const std::vector<std::string>& values) {
  return StrCat("[", Join(values, ", "), "]");
}

std::string JsonOfCpu(const CpuDescription& cpu) {
  std::vector<std::string> features;
  for (const std::string& feature : cpu.features) features.push_back(JsonString(feature));
  Members members;
  members.Text("name", cpu.name)
      .Count("processors", cpu.processors)
      .Raw("features", JsonArray(features))
      .Count("memory_bytes", cpu.memory)
      .Count("available_bytes", cpu.available)
      .Text("libraries", cpu.libraries);
  if (cpu.peak) members.Number("f32_gflops", cpu.peak->gflops).Number("memory_gbs", cpu.peak->gbs);
  return members.Object();
}

std::string JsonOfGpu(const GpuDescription& gpu) {
  Members members;
  members.Text("name", gpu.info.name)
      .Text("compute_capability", StrCat(gpu.info.major, ".", gpu.info.minor))
      .Count("multiprocessors", gpu.info.processors)
      .Count("memory_bytes", gpu.info.memory)
      .Count("free_bytes", gpu.info.free);
  if (!gpu.problem.empty()) members.Text("problem", gpu.problem);
  if (!gpu.rates) return members.Object();
  return members.Number("f32_gflops", gpu.rates->f32_gflops)
      .Number("tf32_gflops", gpu.rates->tf32_gflops)
      .Number("bf16_gflops", gpu.rates->bf16_gflops)
      .Number("memory_gbs", gpu.rates->copy_gbs)
      .Number("host_to_gpu_gbs", gpu.rates->to_gpu_gbs)
      .Number("gpu_to_host_gbs", gpu.rates->from_gpu_gbs)
      .Object();
}

}  // namespace

std::string TextOf(const Machine& machine) {
  std::string text = TextOfCpu(machine.cpu);
  for (size_t i = 0; i < machine.gpus.size(); ++i) text += TextOfGpu(i, machine.gpus[i]);
  if (!machine.no_gpu.empty()) text += StrCat("GPUs: none: ", machine.no_gpu, "\n");
  for (const auto& [name, version] : machine.libraries) {
    text += StrCat(name, ": ", version, "\n");
  }
  return text;
}

std::string JsonOf(const Machine& machine) {
  std::vector<std::string> gpus;
  for (const GpuDescription& gpu : machine.gpus) gpus.push_back(JsonOfGpu(gpu));
  Members libraries;
  for (const auto& [name, version] : machine.libraries) libraries.Text(name, version);
  Members members;
  members.Raw("cpu", JsonOfCpu(machine.cpu))
      .Raw("gpus", JsonArray(gpus))
      .Text("no_gpu", machine.no_gpu)
      .Raw("gpu_libraries", libraries.Object());
  return members.Object() + "\n";
}

}  // namespace crema::tools
