// Softmax and LogSoftmax on the GPU; see softmax.cc. A team computes each row with many contiguous
// classes. In all other cases a thread computes one position, so that neighbouring threads read
// neighbouring memory if classes are strided.
#include <cmath>
#include <limits>

#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "math/fast_exp.h"
#include "math/softmax.h"

namespace crema {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

bool IsForTeams(const SoftmaxSize& e) { return e.inner == 1 && e.classes > Team::kWarp; }

// The result of one class, given exp(x - top), its sum and the logarithm of that.
template <bool kLog>
CREMA_HOST_DEVICE inline float Share(float x, float top, float sum, float log_sum) {
  return kLog ? x - top - log_sum : FastExp(x - top) / sum;
}

// The gradient of one class, given the sum over all classes of dy, times y without kLog.
template <bool kLog>
CREMA_HOST_DEVICE inline float ShareGradient(float y, float dy, float sum) {
  return kLog ? dy - FastExp(y) * sum : y * (dy - sum);
}

template <bool kLog, typename T>
void ForwardTeams(const CudaQueue& queue, const SoftmaxSize& e, const T* x, T* y) {
  const int64_t classes = e.classes;
  ForTeamsOf(queue, "SoftmaxForward", e.outer, classes,
             [=] CREMA_HOST_DEVICE(const Team& team, int64_t r) {
               const T* from = x + r * classes;
               T* to = y + r * classes;
               const float top =
                   team.Max(classes, kLeast, [&](int64_t c) { return ToFloat(from[c]); });
               const float sum =
                   team.Sum(classes, [&](int64_t c) { return FastExp(ToFloat(from[c]) - top); });
               const float log_sum = std::log(sum);
               team.For(classes, [&](int64_t c) {
                 to[c] = FromFloat<T>(Share<kLog>(ToFloat(from[c]), top, sum, log_sum));
               });
             });
}

template <bool kLog, typename T>
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
    const float log_sum = std::log(sum);
    for (int64_t c = 0; c < classes; ++c) {
      to[c * inner] = FromFloat<T>(Share<kLog>(ToFloat(from[c * inner]), top, sum, log_sum));
    }
  });
}

template <bool kLog, typename T>
void BackwardTeams(const CudaQueue& queue, const SoftmaxSize& e, const T* y, const T* dy, T* dx) {
  const int64_t classes = e.classes;
  ForTeamsOf(queue, "SoftmaxBackward", e.outer, classes,
             [=] CREMA_HOST_DEVICE(const Team& team, int64_t r) {
               const int64_t first = r * classes;
               const float sum = team.Sum(classes, [&](int64_t c) {
                 return ToFloat(dy[first + c]) * (kLog ? 1 : ToFloat(y[first + c]));
               });
               team.For(classes, [&](int64_t c) {
                 const int64_t at = first + c;
                 dx[at] = FromFloat<T>(ShareGradient<kLog>(ToFloat(y[at]), ToFloat(dy[at]), sum));
               });
             });
}

template <bool kLog, typename T>
void BackwardThreads(const CudaQueue& queue, const SoftmaxSize& e, const T* y, const T* dy, T* dx) {
  const int64_t classes = e.classes, inner = e.inner;
  ForElements(queue, "SoftmaxBackward", e.outer * inner, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t first = i / inner * classes * inner + i % inner;
    float sum = 0;
    for (int64_t c = 0; c < classes; ++c) {
      sum += ToFloat(dy[first + c * inner]) * (kLog ? 1 : ToFloat(y[first + c * inner]));
    }
    for (int64_t c = 0; c < classes; ++c) {
      const int64_t at = first + c * inner;
      dx[at] = FromFloat<T>(ShareGradient<kLog>(ToFloat(y[at]), ToFloat(dy[at]), sum));
    }
  });
}

SoftmaxSize SizesOf(const Layer& layer, const Shape& shape) {
  const int axis = shape.CanonicalAxis(layer.param().softmax_param().axis());
  return {shape.count(0, axis), shape[axis], shape.count(axis + 1)};
}

template <bool kLog>
struct GpuSoftmax {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const SoftmaxSize e = SizesOf(layer, args.inputs[0].shape());
    (IsForTeams(e) ? ForwardTeams<kLog, T> : ForwardThreads<kLog, T>)(args.queue, e, args.x(),
                                                                      args.y());
  }
  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const SoftmaxSize e = SizesOf(layer, args.outputs[0].shape());
    (IsForTeams(e) ? BackwardTeams<kLog, T> : BackwardThreads<kLog, T>)(args.queue, e, args.y(),
                                                                        args.dy(), args.dx());
  }
};

}  // namespace

void RegisterSoftmaxCuda(Registry& registry) {
  registry.AddImplementation("Softmax", CudaImplementation<GpuSoftmax<false>>());
  registry.AddImplementation("LogSoftmax", CudaImplementation<GpuSoftmax<true>>());
}

}  // namespace crema
