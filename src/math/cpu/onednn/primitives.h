// Internal: shared by all uses of oneDNN.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <cstddef>
#include <oneapi/dnnl/dnnl.hpp>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "core/processor.h"
#include "core/strings.h"

namespace crema::onednn {

// Returns the instructions that CREMA_CPU leaves to oneDNN (core/processor.h).
inline dnnl::cpu_isa AllowedIsa() {
  switch (AllowedLevel()) {
    case ProcessorLevel::kBaseline:
      return dnnl::cpu_isa::sse41;  // the least that it has code for
    case ProcessorLevel::kAvx2:
      return dnnl::cpu_isa::avx2;
    case ProcessorLevel::kAvx512:
      return dnnl::cpu_isa::avx512_core;
    case ProcessorLevel::kAvx512BF16:
      return dnnl::cpu_isa::avx512_core_bf16;
    case ProcessorLevel::kAll:
      break;
  }
  return dnnl::cpu_isa::all;
}

inline const dnnl::engine& Cpu() {
  static const dnnl::engine cpu = [] {
    if (AllowedLevel() != ProcessorLevel::kAll) dnnl::set_max_cpu_isa(AllowedIsa());
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return cpu;
}

// Sets the number of OpenMP threads, which oneDNN uses when a primitive is created and when it
// runs.
class ThreadCount {
 public:
#ifdef _OPENMP
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    RequireTeam(threads);
    if (before_ != threads) omp_set_num_threads(threads);
  }
  ~ThreadCount() { omp_set_num_threads(before_); }
#else
  explicit ThreadCount(int) {}
  ~ThreadCount() = default;
#endif
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  [[maybe_unused]] int before_ = 1;
};

// Calls body(), and converts oneDNN's exceptions to an Error about `what`.
template <typename Body>
decltype(auto) Try(const char* what, Body&& body) {
  try {
    return body();
  } catch (const dnnl::error& error) {
    const bool memory = error.status == dnnl_out_of_memory;
    Fail(memory ? ErrorCode::kOutOfMemory : ErrorCode::kUnsupported,
         StrCat("oneDNN has no ", what, " for this: ", error.what()));
  }
}

inline dnnl::memory::format_tag BlockedTag() {
  return ChannelBlock() == 16 ? dnnl::memory::format_tag::nChw16c
                              : dnnl::memory::format_tag::nChw8c;
}

// The caller provides the scratch, so that all layers share it.
inline dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

inline void AppendEltwise(dnnl::post_ops* ops, dnnl::algorithm algorithm, float alpha,
                          float beta = 0) {
#if DNNL_VERSION_MAJOR >= 3
  ops->append_eltwise(algorithm, alpha, beta);
#else
  ops->append_eltwise(1, algorithm, alpha, beta);
#endif
}

// The second input of binary post-op `index`.
constexpr int BinaryArg(int index) {
  return DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1;
}

// A primitive with its arguments, prepared once. Thread safety: one thread at a time.
class Runner {
 public:
  Runner() = default;
  Runner(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& desc)
      : primitive_(primitive), stream_(Cpu()) {
    for (const int arg : {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS,
                          DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS,
                          DNNL_ARG_DIFF_BIAS, DNNL_ARG_WORKSPACE, DNNL_ARG_SCRATCHPAD}) {
      AddArg(arg, desc);
    }
    const dnnl::primitive_attr attr = desc.get_primitive_attr();
    const dnnl::post_ops ops = attr.get_post_ops();  // refers to `attr`
    for (int i = 0; i < ops.len(); ++i) {
      if (ops.kind(i) == dnnl::primitive::kind::binary) AddArg(BinaryArg(i), desc);
    }
    for (const auto& [arg, memory] : args_) list_.push_back({arg, memory.get()});
  }

  explicit operator bool() const { return !args_.empty(); }
  // Does nothing if the primitive has no such argument (bias, scratch, workspace).
  void Set(int arg, const void* data) {
    const auto found = args_.find(arg);
    if (found == args_.end()) return;
    dnnl::memory& memory = found->second;
    // Setting it may write zeros after the last channel.
    if (memory.get_data_handle() != data) memory.set_data_handle(const_cast<void*>(data));
  }
  // The C++ function would rebuild the list.
  void Run() {
    const dnnl_status_t status = dnnl_primitive_execute(
        primitive_.get(), stream_.get(), static_cast<int>(list_.size()), list_.data());
    if (status != dnnl_success) throw dnnl::error(status, "could not execute a primitive");
  }

 private:
  void AddArg(int arg, const dnnl::primitive_desc_base& desc) {
    const dnnl::memory::desc of = desc.query_md(dnnl::query::exec_arg_md, arg);
    if (!of.is_zero()) args_.emplace(arg, dnnl::memory(of, Cpu(), nullptr));
  }

  dnnl::primitive primitive_;
  dnnl::stream stream_;
  std::unordered_map<int, dnnl::memory> args_;  // owns the handles in `list_`
  std::vector<dnnl_exec_arg_t> list_;
};

// Creates a runner of a `Primitive`, such as dnnl::matmul.
template <typename Primitive>
Runner MakeRunner(const typename Primitive::primitive_desc& desc) {
  return {Primitive(desc), desc};
}

}  // namespace crema::onednn
