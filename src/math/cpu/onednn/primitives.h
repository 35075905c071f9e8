// Internal: what all uses of oneDNN share.
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
#include "core/strings.h"

namespace crema::onednn {

using Args = std::unordered_map<int, dnnl::memory>;

inline const dnnl::engine& Cpu() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// oneDNN uses as many threads as OpenMP would give it, when a primitive is made and when it runs.
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

// Calls body(); what oneDNN throws becomes an Error about `what`.
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

// Scratch is the caller's, so that all layers have the same.
inline dnnl::primitive_attr Attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

inline dnnl::memory WithoutData(const dnnl::memory::desc& desc) {
  return dnnl::memory(desc, Cpu(), nullptr);
}

// A primitive with the arguments that it is run with, made once.
class Runner {
 public:
  Runner() = default;
  Runner(const dnnl::primitive& primitive, Args args)
      : primitive_(primitive), args_(std::move(args)) {
    for (const auto& [arg, memory] : args_) list_.push_back({arg, memory.get()});
  }

  explicit operator bool() const { return !args_.empty(); }
  void Set(int arg, const void* data) {
    dnnl::memory& memory = args_.at(arg);
    // Setting it may write zeros behind the last channel.
    if (memory.get_data_handle() != data) memory.set_data_handle(const_cast<void*>(data));
  }
  // The C++ function would make the list anew.
  void Run(const dnnl::stream& stream) {
    const dnnl_status_t status = dnnl_primitive_execute(
        primitive_.get(), stream.get(), static_cast<int>(list_.size()), list_.data());
    if (status != dnnl_success) throw dnnl::error(status, "could not execute a primitive");
  }

 private:
  dnnl::primitive primitive_;
  Args args_;  // owns what `list_` refers to
  std::vector<dnnl_exec_arg_t> list_;
};

}  // namespace crema::onednn
