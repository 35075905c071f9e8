// Softmax on the GPU; see softmax.cc. A team computes each row with many contiguous classes. In all
// other cases a thread computes one position, so that neighbouring threads read neighbouring memory
// if classes are strided.
#include <limits>

#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "math/fast_exp.h"
#include "math/softmax.h"

namespace crema {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

bool IsForTeams(const SoftmaxSize& e) { return e.inner == 1 && e.classes > Team::kWarp; }

template <typename T>
void ForwardTeams(const CudaQueue& queue, const SoftmaxSize& e, const T* x, T* y) {
  const int64_t classes = e.classes;
  ForTeams(queue, "SoftmaxForward", e.outer, [=] CREMA_HOST_DEVICE(const Team& team, int64_t r) {
    const T* from = x + r * classes;
    T* to = y + r * classes;
    const float top = team.Max(classes, kLeast, [&](int64_t c) { return ToFloat(from[c]); });
    const float sum = team.Sum(classes, [&](int64_t c) { return FastExp(ToFloat(from[c]) - top); });
    team.For(classes,
             [&](int64_t c) { to[c] = FromFloat<T>(FastExp(ToFloat(from[c]) - top) / sum); });
  });
}

template <typename T>
void ForwardThreads(const CudaQueue& queue, const SoftmaxSize& e, const T* x, T* y) {
  const int64_t classes = e.classes, inner = e.inner;
  ForElements(queue, "SoftmaxForward", e.outer * inner, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t first = i / inner * classes * inner + i % inner;
    const T* from = x + first;
    T* to = y + first;
    float top = kLeast, sum = 0;
    for (int64_t c = 0; c < classes; ++c) {
      const float value = ToFloat(from[c * inner]);
      top = top < value ? value : top;
    }
    for (int64_t c = 0; c < classes; ++c) sum += FastExp(ToFloat(from[c * inner]) - top);
    for (int64_t c = 0; c < classes; ++c) {
      to[c * inner] = FromFloat<T>(FastExp(ToFloat(from[c * inner]) - top) / sum);
    }
  });
}

template <typename T>
void BackwardTeams(const CudaQueue& queue, const SoftmaxSize& e, const T* y, const T* dy, T* dx) {
  const int64_t classes = e.classes;
  ForTeams(queue, "SoftmaxBackward", e.outer, [=] CREMA_HOST_DEVICE(const Team& team, int64_t r) {
    const int64_t first = r * classes;
    const float dot = team.Sum(
        classes, [&](int64_t c) { return ToFloat(dy[first + c]) * ToFloat(y[first + c]); });
    team.For(classes, [&](int64_t c) {
      const int64_t at = first + c;
      dx[at] = FromFloat<T>(ToFloat(y[at]) * (ToFloat(dy[at]) - dot));
    });
  });
}

template <typename T>
void BackwardThreads(const CudaQueue& queue, const SoftmaxSize& e, const T* y, const T* dy, T* dx) {
  const int64_t classes = e.classes, inner = e.inner;
  ForElements(queue, "SoftmaxBackward", e.outer * inner, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t first = i / inner * classes * inner + i % inner;
    float dot = 0;
    for (int64_t c = 0; c < classes; ++c) {
      dot += ToFloat(dy[first + c * inner]) * ToFloat(y[first + c * inner]);
    }
    for (int64_t c = 0; c < classes; ++c) {
      const int64_t at = first + c * inner;
      dx[at] = FromFloat<T>(ToFloat(y[at]) * (ToFloat(dy[at]) - dot));
    }
  });
}

SoftmaxSize SizesOf(const Layer& layer, const Shape& shape) {
  const int axis = shape.CanonicalAxis(layer.param().softmax_param().axis());
  return {shape.count(0, axis), shape[axis], shape.count(axis + 1)};
}

struct GpuSoftmax {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const SoftmaxSize e = SizesOf(layer, args.inputs[0].shape());
    (IsForTeams(e) ? ForwardTeams<T> : ForwardThreads<T>)(args.queue, e, args.x(), args.y());
  }
  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const SoftmaxSize e = SizesOf(layer, args.outputs[0].shape());
    (IsForTeams(e) ? BackwardTeams<T> : BackwardThreads<T>)(args.queue, e, args.y(), args.dy(),
                                                            args.dx());
  }
};

}  // namespace

void RegisterSoftmaxCuda(Registry& registry) {
  registry.AddImplementation("Softmax", CudaImplementation<GpuSoftmax>());
}

}  // namespace crema
