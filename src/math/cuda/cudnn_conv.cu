#include <algorithm>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/check.h"
#include "math/cuda/cuda_info.h"
#include "math/cuda/cudnn_conv.h"
#include "math/cuda/cudnn_conv_graph.h"

namespace crema {
namespace {

constexpr size_t kMostTimed = 8;  // engines that are measured

// Returns the plan, or null if cuDNN or the workspace bound rejects it: then `reason` is the first
// of the reasons.
std::unique_ptr<CudnnPlan> PlanOf(cudnnHandle_t handle,
                                  const std::shared_ptr<const CudnnGraph>& graph,
                                  const CudnnEngine& engine, int64_t bound, std::string* reason) {
  const auto refuse = [&](std::string why) {
    if (reason->empty()) *reason = std::move(why);
    return nullptr;
  };
  try {
    auto plan = std::make_unique<CudnnPlan>(handle, graph, engine);
    if (plan->workspace() <= bound) return plan;
    return refuse(StrCat(engine.name, " of cuDNN needs ", plan->workspace(),
                         " bytes of workspace, more than ", bound));
  } catch (const Error& error) {
    // Engines proposed by the heuristics may still fail, with various messages.
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    return refuse(error.what());
  }
}

// Returns no engine if the heuristics fail or know none; `reason` then says why, unless it is
// already set.
std::vector<CudnnEngine> Proposed(const CudnnGraph& graph, const CudnnConvSpec& spec, bool fallback,
                                  std::string* reason) {
  try {
    std::string words;
    auto engines = CudnnConvEngines(graph, spec, fallback, &words);
    if (reason->empty() && !words.empty()) *reason = StrCat("cuDNN has no engine for it: ", words);
    return engines;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    if (reason->empty()) *reason = error.what();
    return {};
  }
}

// Returns the first plan that can be made, also of engines that are no longer proposed. Throws
// kUnsupported with `reason`, if there is one.
std::unique_ptr<CudnnPlan> FirstPlan(cudnnHandle_t handle,
                                     const std::shared_ptr<const CudnnGraph>& graph,
                                     const CudnnConvSpec& spec,
                                     const std::vector<CudnnEngine>& proposed, std::string reason) {
  const auto first_of = [&](const std::vector<CudnnEngine>& engines) {
    std::unique_ptr<CudnnPlan> plan;
    for (const CudnnEngine& engine : engines) {
      plan = PlanOf(handle, graph, engine, CudnnWorkspaceBound(spec), &reason);
      if (plan != nullptr) break;
    }
    return plan;
  };
  if (auto plan = first_of(proposed)) return plan;
  // The query for these takes ten times as long as everything else here.
  if (auto plan = first_of(Proposed(*graph, spec, true, &reason))) return plan;
  Fail(ErrorCode::kUnsupported,
       reason.empty() ? "cuDNN has no engine for it that repeats its bits in this precision"
                      : reason);
}

// Returns the seconds that `work` takes on the queue: the least of several runs.
double SecondsOf(const CudaQueue& queue, const std::function<void()>& work) {
  constexpr int kRuns = 3;
  work();  // creates one-time resources
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < kRuns; ++run) {
    // No events: this runs once, before graphs and profiles, and engines differ by more.
    const_cast<CudaQueue&>(queue).Synchronize();
    const auto start = std::chrono::steady_clock::now();
    work();
    const_cast<CudaQueue&>(queue).Synchronize();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    least = std::min(least, took.count());
  }
  return least;
}

// The same; infinity if an engine with a plan fails when it is queued: another may succeed.
double SecondsOrNever(const CudaQueue& queue, const std::function<void()>& work) {
  try {
    return SecondsOf(queue, work);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDeviceFailure || !queue.lost().empty()) throw;
    return std::numeric_limits<double>::infinity();
  }
}

std::string GpuText(const CudaQueue& queue) {
  if (queue.emulated()) return "no GPU";
  int gpu = 0;
  CheckCuda(cudaGetDevice(&gpu), "cudaGetDevice");
  const GpuInfo info = CudaInfo(gpu);
  return StrCat(info.name, " ", info.major, ".", info.minor);
}

}  // namespace

int64_t CudnnConvSpec::InCount() const {
  int64_t count = batch * in_channels;
  for (const Axis& axis : axes) count *= axis.in;
  return count;
}
int64_t CudnnConvSpec::OutCount() const {
  int64_t count = batch * out_channels;
  for (const Axis& axis : axes) count *= axis.out;
  return count;
}
int64_t CudnnConvSpec::FilterCount() const {
  int64_t count = out_channels * (in_channels / groups);
  for (const Axis& axis : axes) count *= axis.kernel;
  return count;
}

std::string Describe(const CudnnConvSpec& spec) {
  const char* pass = spec.pass == ConvPass::kForward   ? "forward"
                     : spec.pass == ConvPass::kToInput ? "to input"
                                                       : "to weights";
  std::string text =
      StrCat("convolution ", pass, " ", ToString(spec.dtype), spec.tf32 ? " as tf32" : "",
             spec.channels_last ? " NHWC" : " NCHW", " n", spec.batch, " g", spec.groups, " i",
             spec.in_channels, " o", spec.out_channels, " aligned ", spec.alignment);
  for (const CudnnConvSpec::Axis& a : spec.axes) {
    text += StrCat(", ", a.in, " to ", a.out, " by ", a.kernel, " stride ", a.stride, " pad ",
                   a.pad, " dilation ", a.dilation);
  }
  if (spec.sum) text += " + sum";
  if (spec.bias) text += " + bias";
  if (spec.relu) text += StrCat(" + relu ", *spec.relu);
  return text;
}

int64_t CudnnWorkspaceBound(const CudnnConvSpec& spec) {
  constexpr int64_t kLeast = int64_t{1} << 20, kMost = int64_t{256} << 20;
  const int64_t elements = spec.InCount() + spec.OutCount() + spec.FilterCount();
  return std::clamp(2 * elements * static_cast<int64_t>(SizeOf(spec.dtype)), kLeast, kMost);
}

int64_t CudnnConvMemory::Alignment() const {
  uintptr_t bits = 16;
  for (const void* pointer : {x, w, y, sum, bias}) bits |= reinterpret_cast<uintptr_t>(pointer);
  return static_cast<int64_t>(bits & (~bits + 1));  // the lowest bit that is set
}

CudnnConvPass::CudnnConvPass(const CudaQueue& queue, CudnnConvSpec spec,
                             const CudnnConvMemory& memory, const CudnnTimer& timer)
    : spec_(std::move(spec)) {
  const cudnnHandle_t handle = queue.cudnn();
  const int64_t bound = CudnnWorkspaceBound(spec_);
  const auto graph = MakeCudnnConvGraph(handle, spec_);
  std::string refusal;
  const std::vector<CudnnEngine> engines = Proposed(*graph, spec_, false, &refusal);
  if (timer && engines.size() > 1) {
    std::vector<std::string> names;
    for (const CudnnEngine& engine : engines) {
      if (names.size() < kMostTimed) names.push_back(engine.name);
    }
    const auto measure = [&](size_t i) {
      std::string reason;
      const auto plan = PlanOf(handle, graph, engines[i], bound, &reason);
      if (plan == nullptr) return std::numeric_limits<double>::infinity();
      return SecondsOrNever(queue, [&] {
        plan->Run(handle, CudnnConvIds(spec_), CudnnConvData(spec_, memory), memory.workspace);
      });
    };
    const std::string work = StrCat("cuDNN ", Cudnn().version(), " on ", GpuText(queue), ": ",
                                    Describe(spec_), ", workspace ", bound);
    const std::vector<double> seconds = timer(work, names, measure);
    const auto best = std::ranges::min_element(seconds);
    if (best != seconds.end() && std::isfinite(*best)) {
      std::string reason;
      plan_ = PlanOf(handle, graph, engines[static_cast<size_t>(best - seconds.begin())], bound,
                     &reason);
    }
  }
  if (plan_ == nullptr) plan_ = FirstPlan(handle, graph, spec_, engines, refusal);
}

void CudnnConvPass::Run(const CudaQueue& queue, const CudnnConvMemory& memory) {
  queue.Call("cudnnBackendExecute", [this, handle = queue.cudnn(), memory] {
    plan_->Run(handle, CudnnConvIds(spec_), CudnnConvData(spec_, memory), memory.workspace);
  });
}

// Entries of cuDNN itself are not destroyed: the cache may be a static variable, and a library
// loaded after its construction is unloaded before its destruction.
CudnnSupportCache::~CudnnSupportCache() {
  if (!of_stand_in_) return;
  for (const auto& [gpu, handle] : handles_) library_->destroy(handle);
}

cudnnHandle_t CudnnSupportCache::HandleOf(int gpu) {
  const auto found = handles_.find(gpu);
  if (found != handles_.end()) return found->second;
  library_ = &Cudnn();
  of_stand_in_ = CudnnStandIn::IsThere();
  cudnnHandle_t handle = nullptr;
  CheckCudnn(library_->create(&handle), "cudnnCreate");
  return handles_[gpu] = handle;
}

std::string CudnnSupportCache::WhyNot(const CudnnConvSpec& spec, int gpu) {
  const std::lock_guard lock(mutex_);
  const auto key = std::pair(gpu, Describe(spec));
  const auto known = reasons_.find(key);
  if (known != reasons_.end()) return known->second;
  std::string reason;
  try {
    // A replaced cuDNN has no GPU.
    if (WhyNoCuda().empty()) CheckCuda(cudaSetDevice(gpu), "cudaSetDevice");
    const cudnnHandle_t handle = HandleOf(gpu);
    const auto graph = MakeCudnnConvGraph(handle, spec);
    std::string refusal;
    const std::vector<CudnnEngine> engines = Proposed(*graph, spec, false, &refusal);
    FirstPlan(handle, graph, spec, engines, refusal);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kOutOfMemory) throw;
    reason = error.what();
  }
  return reasons_[key] = reason;
}

}  // namespace crema
