// Attention on the GPU; see attention.cc. Matrix products are cuBLAS batches over heads or over
// items, whichever needs fewer calls. Forward, the product applies the scale before rounding;
// backward, the gradient of the softmax applies it.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "crema.pb.h"
#include "layers/attention/attention_head.h"
#include "layers/gpu_implementation.h"
#include "layers/zero_gradient.cuh"
#include "math/cuda/gemm.h"
#include "math/scratch.h"

namespace crema {
namespace {

// Some items of the batch of a layer.
struct Work {
  const CudaQueue& queue;
  DType dtype;
  AttentionSize e;
  float scale;
  int64_t first, items;
};

// `count` heads at fixed strides; the first one begins at `at`.
struct HeadBatch {
  HeadBatch(const AttentionSize& e, int64_t item, int64_t first_head, int64_t items, bool by_items)
      : at(e, item, first_head), head(first_head), count(by_items ? items : e.kv_heads) {
    query = by_items ? e.queries * e.query_stride() : e.group() * e.size;
    key = by_items ? e.keys * e.key_stride() : e.size;
    value = by_items ? e.keys * e.value_stride() : e.value_size;
    output = by_items ? e.queries * e.output_stride() : e.group() * e.value_size;
    products = (by_items ? e.heads : e.group()) * e.products();
  }
  HeadOffsets at;
  int64_t head, count;
  int64_t query, key, value, output, products;  // strides
};

// Calls body(batch) for all heads. Heads that share keys are in different batches, in order.
template <typename Body>
void ForHeads(const Work& work, const Body& body) {
  const AttentionSize& e = work.e;
  if (e.heads <= work.items * e.group()) {
    for (int64_t head = 0; head < e.heads; ++head) {
      body(HeadBatch(e, work.first, head, work.items, true));
    }
    return;
  }
  for (int64_t item = work.first; item < work.first + work.items; ++item) {
    for (int64_t g = 0; g < e.group(); ++g) body(HeadBatch(e, item, g, 1, false));
  }
}

template <typename T>
struct GpuMask {
  const T* data = nullptr;                         // null means no mask
  int64_t item = 0, head = 0, query = 0, key = 0;  // strides
};

// Converts rows of products to probabilities, in place.
template <typename T>
void MaskedSoftmax(const Work& work, bool causal, const GpuMask<T>& mask, T* p) {
  const int64_t heads = work.e.heads, queries = work.e.queries, keys = work.e.keys;
  const int64_t first = work.first;
  ForTeamsOf(
      work.queue, "AttentionSoftmax", work.items * heads * queries, keys,
      [=] CREMA_HOST_DEVICE(const Team& team, int64_t r) {
        const float lowest = -std::numeric_limits<float>::infinity();
        const int64_t each = Quotient(r, queries), q = r - each * queries;
        const int64_t item = Quotient(each, heads), head = each - item * heads;
        const int64_t seen = causal && q + 1 < keys ? q + 1 : keys;
        const int64_t offset = (first + item) * mask.item + head * mask.head + q * mask.query;
        T* row = p + r * keys;
        const auto value = [&](int64_t k) {
          const float product = ToFloat(row[k]);
          return mask.data == nullptr ? product
                                      : product + ToFloat(mask.data[offset + k * mask.key]);
        };
        const float most = team.Max(seen, lowest, value);
        // The maximum ignores NaN, but NaN must propagate.
        const bool blind = most == lowest && team.Sum(seen, [&](int64_t k) {
          return static_cast<int64_t>(value(k) != lowest);
        }) == 0;
        const float sum = team.Sum(seen, [&](int64_t k) { return std::exp(value(k) - most); });
        team.For(keys, [&](int64_t k) {
          const bool none = blind || k >= seen;
          row[k] = FromFloat<T>(none ? 0 : std::exp(value(k) - most) / sum);
        });
      });
}

// dp = scale p (dp - sum dp p), the gradient of the unscaled products.
template <typename T>
void SoftmaxBackward(const Work& work, const T* p, T* dp) {
  const int64_t keys = work.e.keys;
  const float scale = work.scale;
  ForTeamsOf(work.queue, "AttentionBackward", work.items * work.e.heads * work.e.queries, keys,
             [=] CREMA_HOST_DEVICE(const Team& team, int64_t r) {
               const T* probability = p + r * keys;
               T* row = dp + r * keys;
               const float sum = team.Sum(
                   keys, [&](int64_t k) { return ToFloat(row[k]) * ToFloat(probability[k]); });
               team.For(keys, [&](int64_t k) {
                 const float own = ToFloat(probability[k]);
                 // A masked key gets 0, even if its dp is infinite or NaN.
                 row[k] = FromFloat<T>(own == 0 ? 0 : scale * own * (ToFloat(row[k]) - sum));
               });
             });
}

// p begins at the first item of the work.
template <typename T>
void ForwardItems(const Work& work, const AttentionTensors<T>& in, bool causal,
                  const GpuMask<T>& mask, T* p, T* y) {
  const AttentionSize& e = work.e;
  const int64_t base = work.first * e.heads * e.products();
  ForHeads(work, [&](const HeadBatch& b) {
    CudaGemmBatched(work.queue, work.dtype, {b.count, b.query, b.key, b.products, work.scale},
                    false, true, e.queries, e.keys, e.size, in.query + b.at.query, e.query_stride(),
                    in.key + b.at.key, e.key_stride(), 0, p + b.at.saved - base, e.keys);
  });
  MaskedSoftmax(work, causal, mask, p);
  ForHeads(work, [&](const HeadBatch& b) {
    CudaGemmBatched(work.queue, work.dtype, {b.count, b.products, b.value, b.output}, false, false,
                    e.queries, e.value_size, e.keys, p + b.at.saved - base, e.keys,
                    in.value + b.at.value, e.value_stride(), 0, y + b.at.output, e.output_stride());
  });
}

// p begins at item 0, dp at the first item of the work.
template <typename T>
void BackwardItems(const Work& work, const AttentionTensors<T>& in, const T* p, const T* dy,
                   const AttentionGradients<T>& out, T* dp) {
  const AttentionSize& e = work.e;
  const int64_t base = work.first * e.heads * e.products();
  // Accumulates over the heads that share keys.
  const auto beta = [&](const HeadBatch& b) { return b.head % e.group() == 0 ? 0.0f : 1.0f; };
  ForHeads(work, [&](const HeadBatch& b) {
    if (out.value == nullptr) return;
    CudaGemmBatched(work.queue, work.dtype, {b.count, b.products, b.output, b.value}, true, false,
                    e.keys, e.value_size, e.queries, p + b.at.saved, e.keys, dy + b.at.output,
                    e.output_stride(), beta(b), out.value + b.at.value, e.value_stride());
  });
  if (out.query == nullptr && out.key == nullptr) return;
  ForHeads(work, [&](const HeadBatch& b) {
    CudaGemmBatched(work.queue, work.dtype, {b.count, b.output, b.value, b.products}, false, true,
                    e.queries, e.keys, e.value_size, dy + b.at.output, e.output_stride(),
                    in.value + b.at.value, e.value_stride(), 0, dp + b.at.saved - base, e.keys);
  });
  SoftmaxBackward(work, p + base, dp);
  ForHeads(work, [&](const HeadBatch& b) {
    if (out.query != nullptr) {
      CudaGemmBatched(work.queue, work.dtype, {b.count, b.products, b.key, b.query}, false, false,
                      e.queries, e.size, e.keys, dp + b.at.saved - base, e.keys, in.key + b.at.key,
                      e.key_stride(), 0, out.query + b.at.query, e.query_stride());
    }
    if (out.key != nullptr) {
      CudaGemmBatched(work.queue, work.dtype, {b.count, b.products, b.query, b.key}, true, false,
                      e.keys, e.size, e.queries, dp + b.at.saved - base, e.keys,
                      in.query + b.at.query, e.query_stride(), beta(b), out.key + b.at.key,
                      e.key_stride());
    }
  });
}

float Scale(const Layer& layer, const AttentionSize& e) {
  return static_cast<float>(AttentionScale(layer, e));
}

template <typename T>
AttentionTensors<T> TensorsOf(const AttentionSize& e, std::span<const ConstTensorView> inputs) {
  return {Elements<T>(inputs[0]), Elements<T>(inputs[e.packed ? 0 : 1]) + e.key_begin(),
          Elements<T>(inputs[e.packed ? 0 : 2]) + e.value_begin()};
}

template <typename T>
AttentionGradients<T> GradientsOf(const AttentionSize& e, std::span<const TensorView> grads) {
  const auto begin = [&](size_t i, int64_t offset) {
    const TensorView& view = grads[e.packed ? 0 : i];
    return view.empty() ? nullptr : Elements<T>(view) + offset;
  };
  return {begin(0, 0), begin(1, e.key_begin()), begin(2, e.value_begin())};
}

// Returns the number of items whose products fit in scratch at a time.
int64_t ItemsAtATime(const AttentionSize& e, DType dtype) {
  constexpr int64_t kBytes = 64 << 20;
  const int64_t item = e.heads * e.products() * static_cast<int64_t>(SizeOf(dtype));
  return std::clamp<int64_t>(kBytes / std::max<int64_t>(1, item), 1, std::max<int64_t>(1, e.items));
}

template <typename T>
GpuMask<T> MaskOf(const Layer& layer, const AttentionSize& e,
                  std::span<const ConstTensorView> inputs) {
  const int mask = AttentionMask(inputs.size());
  if (mask < 0) return {};
  const ConstTensorView& view = inputs[static_cast<size_t>(mask)];
  const std::array<int64_t, 4> steps = MaskStrides(layer, e, view.shape());
  return {Elements<T>(view), steps[0], steps[1], steps[2], steps[3]};
}

struct GpuAttention {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const AttentionSize e = AttentionSizeOf(layer, args.inputs);
    if (e.keys == 0) return ZeroElements(args.queue, args.outputs[0].count(), args.y());
    const DType dtype = args.inputs[0].dtype();
    const bool causal = layer.param().attention_param().causal();
    T* saved = args.template Saved<T>();
    T* p = saved != nullptr ? saved : reinterpret_cast<T*>(args.scratch.data());
    const int64_t step = saved != nullptr ? std::max<int64_t>(1, e.items) : ItemsAtATime(e, dtype);
    for (int64_t first = 0; first < e.items; first += step) {
      const Work work{args.queue,      dtype, e,
                      Scale(layer, e), first, std::min(step, e.items - first)};
      ForwardItems(work, TensorsOf<T>(e, args.inputs), causal, MaskOf<T>(layer, e, args.inputs), p,
                   args.y());
    }
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const AttentionSize e = AttentionSizeOf(layer, args.inputs);
    if (e.products() == 0) return ZeroCudaGradients(args.queue, args.input_grads);
    const DType dtype = args.output_grads[0].dtype();
    const int64_t step = ItemsAtATime(e, dtype);
    for (int64_t first = 0; first < e.items; first += step) {
      const Work work{args.queue,      dtype, e,
                      Scale(layer, e), first, std::min(step, e.items - first)};
      BackwardItems(work, TensorsOf<T>(e, args.inputs), args.template Saved<T>(), args.dy(),
                    GradientsOf<T>(e, args.input_grads), reinterpret_cast<T*>(args.scratch.data()));
    }
  }

  // Forward needs it only if the probabilities are not saved, which is known only during the pass.
  static size_t Scratch(const OpDesc& query) {
    const AttentionSize e = AttentionSizeOf(query.layer, query.context.inputs);
    const DType dtype = query.context.dtype;
    return static_cast<size_t>(ItemsAtATime(e, dtype) * e.heads * e.products()) * SizeOf(dtype);
  }
};

}  // namespace

void RegisterAttentionCuda(Registry& registry) {
  registry.AddImplementation("Attention", CudaImplementation<GpuAttention>("cublas"));
}

}  // namespace crema
