// One call of oneDNN, for the benchmarks that put it beside kernels of our own: its primitives with
// memory of their own, whatever formats they like.
#pragma once

#ifdef _OPENMP
#include <omp.h>
#endif

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

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
  const memory::desc x = F32({steps, streams, inputs}, Tag::tnc);
  const memory::desc y = F32({steps, streams, hidden}, Tag::tnc);
  const memory::desc state = F32({1, 1, streams, hidden}, Tag::ldnc);
  const memory::desc wx = F32({1, 1, inputs, 4, hidden}, Tag::any);
  const memory::desc wh = F32({1, 1, hidden, 4, hidden}, Tag::any);
  const memory::desc bias = F32({1, 1, 4, hidden}, Tag::ldgo);
  const auto desc =
      Describe<dnnl::lstm_forward>(kInference, dnnl::rnn_direction::unidirectional_left2right, x,
                                   state, state, wx, wh, bias, y, state, state);
  return {dnnl::lstm_forward(desc),
          {{DNNL_ARG_SRC_LAYER, Filled(x, 0.5F)},
           {DNNL_ARG_SRC_ITER, Filled(state, 0.1F)},
           {DNNL_ARG_SRC_ITER_C, Filled(state, 0.1F)},
           {DNNL_ARG_WEIGHTS_LAYER, Filled(desc.weights_layer_desc(), 0.01F)},
           {DNNL_ARG_WEIGHTS_ITER, Filled(desc.weights_iter_desc(), 0.01F)},
           {DNNL_ARG_BIAS, Filled(bias, 0.01F)},
           {DNNL_ARG_DST_LAYER, Filled(y, 0)},
           {DNNL_ARG_DST_ITER, Filled(state, 0)},
           {DNNL_ARG_DST_ITER_C, Filled(state, 0)}}};
}

inline Call GruCall(int64_t steps, int64_t streams, int64_t inputs, int64_t hidden) {
  const memory::desc x = F32({steps, streams, inputs}, Tag::tnc);
  const memory::desc y = F32({steps, streams, hidden}, Tag::tnc);
  const memory::desc state = F32({1, 1, streams, hidden}, Tag::ldnc);
  const memory::desc wx = F32({1, 1, inputs, 3, hidden}, Tag::any);
  const memory::desc wh = F32({1, 1, hidden, 3, hidden}, Tag::any);
  const memory::desc bias = F32({1, 1, 4, hidden}, Tag::ldgo);
  const auto desc = Describe<dnnl::lbr_gru_forward>(
      kInference, dnnl::rnn_direction::unidirectional_left2right, x, state, wx, wh, bias, y, state);
  return {dnnl::lbr_gru_forward(desc),
          {{DNNL_ARG_SRC_LAYER, Filled(x, 0.5F)},
           {DNNL_ARG_SRC_ITER, Filled(state, 0.1F)},
           {DNNL_ARG_WEIGHTS_LAYER, Filled(desc.weights_layer_desc(), 0.01F)},
           {DNNL_ARG_WEIGHTS_ITER, Filled(desc.weights_iter_desc(), 0.01F)},
           {DNNL_ARG_BIAS, Filled(bias, 0.01F)},
           {DNNL_ARG_DST_LAYER, Filled(y, 0)},
           {DNNL_ARG_DST_ITER, Filled(state, 0)}}};
}

}  // namespace crema::bench
