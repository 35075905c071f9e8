// One call of oneDNN, for the benchmarks that put it beside kernels of our own: its primitives with
// memory of their own, whatever formats they like.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "core/memory_format.h"

namespace crema::bench {

using dnnl::memory;
using Dims = memory::dims;
using Tag = memory::format_tag;

inline dnnl::engine& Engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

inline void UseThreads([[maybe_unused]] int threads) {
#ifdef _OPENMP
  omp_set_num_threads(threads);
#endif
}

inline memory::desc F32(const Dims& dims, Tag tag) { return {dims, memory::data_type::f32, tag}; }

// Memory of that kind, all of one value.
inline memory Filled(const memory::desc& desc, float value) {
  memory result(desc, Engine());
  auto* data = static_cast<float*>(result.get_data_handle());
  std::fill_n(data, desc.get_size() / sizeof(float), value);
  return result;
}

// The same brought into the format of a primitive, which may be one of its own.
inline memory Packed(const memory::desc& plain, const memory::desc& desc, float value) {
  memory from = Filled(plain, value);
  memory to(desc, Engine());
  dnnl::stream stream(Engine());
  dnnl::reorder(from, to).execute(stream, from, to);
  stream.wait();
  return to;
}

// A primitive and what it is called with.
class Call {
 public:
  Call(dnnl::primitive primitive, std::unordered_map<int, memory> args)
      : primitive_(std::move(primitive)), args_(std::move(args)), stream_(Engine()) {}
  void operator()() {
    primitive_.execute(stream_, args_);
    stream_.wait();
  }

 private:
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> args_;
  dnnl::stream stream_;
};

// Descriptors took two steps before version 3.
#if DNNL_VERSION_MAJOR >= 3
template <typename Primitive, typename... Args>
typename Primitive::primitive_desc Describe(Args&&... args) {
  return typename Primitive::primitive_desc(Engine(), std::forward<Args>(args)...);
}
#else
template <typename Primitive, typename... Args>
typename Primitive::primitive_desc Describe(Args&&... args) {
  return {typename Primitive::desc(std::forward<Args>(args)...), Engine()};
}
#endif

constexpr auto kInference = dnnl::prop_kind::forward_inference;

inline Call InnerProductCall(int64_t m, int64_t n, int64_t k) {
  const auto desc =
      Describe<dnnl::inner_product_forward>(kInference, F32({m, k}, Tag::ab), F32({n, k}, Tag::any),
                                            F32({n}, Tag::a), F32({m, n}, Tag::ab));
  return {dnnl::inner_product_forward(desc),
          {{DNNL_ARG_SRC, Filled(desc.src_desc(), 0.5F)},
           {DNNL_ARG_WEIGHTS, Filled(desc.weights_desc(), 0.01F)},
           {DNNL_ARG_BIAS, Filled(desc.bias_desc(), 0.01F)},
           {DNNL_ARG_DST, Filled(desc.dst_desc(), 0)}}};
}

// Along the middle axis of outer x classes x inner.
inline Call SoftmaxCall(int64_t outer, int64_t classes, int64_t inner) {
  const memory::desc x = F32({outer, classes, inner}, Tag::abc);
#if DNNL_VERSION_MAJOR >= 3
  const auto desc =
      Describe<dnnl::softmax_forward>(kInference, dnnl::algorithm::softmax_accurate, x, x, 1);
#else
  const auto desc = Describe<dnnl::softmax_forward>(kInference, x, 1);
#endif
  return {dnnl::softmax_forward(desc),
          {{DNNL_ARG_SRC, Filled(x, 0.5F)}, {DNNL_ARG_DST, Filled(x, 0)}}};
}

inline Call LstmCall(int64_t steps, int64_t streams, int64_t inputs, int64_t hidden) {
  constexpr int64_t kGates = 4;
  const memory::desc x = F32({steps, streams, inputs}, Tag::tnc);
  const memory::desc y = F32({steps, streams, hidden}, Tag::tnc);
  const memory::desc state = F32({1, 1, streams, hidden}, Tag::ldnc);
  const memory::desc wx = F32({1, 1, inputs, kGates, hidden}, Tag::any);
  const memory::desc wh = F32({1, 1, hidden, kGates, hidden}, Tag::any);
  const memory::desc bias = F32({1, 1, 4, hidden}, Tag::ldgo);
  const auto desc =
      Describe<dnnl::lstm_forward>(kInference, dnnl::rnn_direction::unidirectional_left2right, x,
                                   state, state, wx, wh, bias, y, state, state);
  return {dnnl::lstm_forward(desc),
          {{DNNL_ARG_SRC_LAYER, Filled(x, 0.5F)},
           {DNNL_ARG_SRC_ITER, Filled(state, 0.1F)},
           {DNNL_ARG_SRC_ITER_C, Filled(state, 0.1F)},
           {DNNL_ARG_WEIGHTS_LAYER, Packed(F32({1, 1, inputs, kGates, hidden}, Tag::ldigo),
                                           desc.weights_layer_desc(), 0.01F)},
           {DNNL_ARG_WEIGHTS_ITER, Packed(F32({1, 1, hidden, kGates, hidden}, Tag::ldigo),
                                          desc.weights_iter_desc(), 0.01F)},
           {DNNL_ARG_BIAS, Filled(bias, 0.01F)},
           {DNNL_ARG_DST_LAYER, Filled(y, 0)},
           {DNNL_ARG_DST_ITER, Filled(state, 0)},
           {DNNL_ARG_DST_ITER_C, Filled(state, 0)}}};
}

inline Call GruCall(int64_t steps, int64_t streams, int64_t inputs, int64_t hidden) {
  constexpr int64_t kGates = 3;
  const memory::desc x = F32({steps, streams, inputs}, Tag::tnc);
  const memory::desc y = F32({steps, streams, hidden}, Tag::tnc);
  const memory::desc state = F32({1, 1, streams, hidden}, Tag::ldnc);
  const memory::desc wx = F32({1, 1, inputs, kGates, hidden}, Tag::any);
  const memory::desc wh = F32({1, 1, hidden, kGates, hidden}, Tag::any);
  const memory::desc bias = F32({1, 1, 4, hidden}, Tag::ldgo);
  const auto desc = Describe<dnnl::lbr_gru_forward>(
      kInference, dnnl::rnn_direction::unidirectional_left2right, x, state, wx, wh, bias, y, state);
  return {dnnl::lbr_gru_forward(desc),
          {{DNNL_ARG_SRC_LAYER, Filled(x, 0.5F)},
           {DNNL_ARG_SRC_ITER, Filled(state, 0.1F)},
           {DNNL_ARG_WEIGHTS_LAYER, Packed(F32({1, 1, inputs, kGates, hidden}, Tag::ldigo),
                                           desc.weights_layer_desc(), 0.01F)},
           {DNNL_ARG_WEIGHTS_ITER, Packed(F32({1, 1, hidden, kGates, hidden}, Tag::ldigo),
                                          desc.weights_iter_desc(), 0.01F)},
           {DNNL_ARG_BIAS, Filled(bias, 0.01F)},
           {DNNL_ARG_DST_LAYER, Filled(y, 0)},
           {DNNL_ARG_DST_ITER, Filled(state, 0)}}};
}

inline Tag Blocked() { return ChannelBlock() == 16 ? Tag::nChw16c : Tag::nChw8c; }

// Over channels, on blocked blobs.
inline Call LrnCall(int64_t batch, int64_t channels, int64_t size) {
  const memory::desc x = F32({batch, channels, size, size}, Blocked());
  constexpr auto kAcross = dnnl::algorithm::lrn_across_channels;
#if DNNL_VERSION_MAJOR >= 3
  const auto desc = Describe<dnnl::lrn_forward>(kInference, kAcross, x, x, 5, 1e-4F, 0.75F, 1.0F);
#else
  const auto desc = Describe<dnnl::lrn_forward>(kInference, kAcross, x, 5, 1e-4F, 0.75F, 1.0F);
#endif
  return {dnnl::lrn_forward(desc), {{DNNL_ARG_SRC, Filled(x, 0.5F)}, {DNNL_ARG_DST, Filled(x, 0)}}};
}

// Maxima of 3 x 3 windows with stride 2 and where they were, on blocked blobs.
inline Call MaxPoolCall(int64_t batch, int64_t channels, int64_t in, int64_t out) {
  const memory::desc x = F32({batch, channels, in, in}, Blocked());
  const memory::desc y = F32({batch, channels, out, out}, Blocked());
  constexpr auto kMax = dnnl::algorithm::pooling_max;
  const Dims strides{2, 2}, kernel{3, 3}, before{0, 0},
      after{(out - 1) * 2 + 3 - in, (out - 1) * 2 + 3 - in};
#if DNNL_VERSION_MAJOR >= 3
  const auto desc = Describe<dnnl::pooling_forward>(dnnl::prop_kind::forward_training, kMax, x, y,
                                                    strides, kernel, Dims{0, 0}, before, after);
#else
  const auto desc = Describe<dnnl::pooling_forward>(dnnl::prop_kind::forward_training, kMax, x, y,
                                                    strides, kernel, before, after);
#endif
  return {dnnl::pooling_forward(desc),
          {{DNNL_ARG_SRC, Filled(x, 0.5F)},
           {DNNL_ARG_DST, Filled(y, 0)},
           {DNNL_ARG_WORKSPACE, memory(desc.workspace_desc(), Engine())}}};
}

// `batch` products of m x k and k x n.
inline Call MatMulCall(int64_t batch, int64_t m, int64_t n, int64_t k, bool transposed) {
  const memory::desc a = F32({batch, m, k}, Tag::abc);
  const memory::desc b = F32({batch, k, n}, transposed ? Tag::acb : Tag::abc);
  const memory::desc c = F32({batch, m, n}, Tag::abc);
  const auto desc = Describe<dnnl::matmul>(a, b, c);
  return {dnnl::matmul(desc),
          {{DNNL_ARG_SRC, Filled(a, 0.5F)},
           {DNNL_ARG_WEIGHTS, Filled(b, 0.5F)},
           {DNNL_ARG_DST, Filled(c, 0)}}};
}

}  // namespace crema::bench
