// CumSum on the GPU; see cum_sum.cc. Each thread of a team sums a piece of a line.
#include "layers/arithmetic/cum_sum.h"
#include "layers/gpu_implementation.h"

namespace crema {
namespace {

// Short lines: one thread each.
template <typename T>
void SumShort(const CudaQueue& queue, const CumSumLines& all, const T* x, T* y) {
  const CumSumLines lines = all;
  ForElements(queue, "CumSumShort", lines.count, [=] CREMA_HOST_DEVICE(int64_t line) {
    float sum = 0;
    for (int64_t i = 0; i < lines.size; ++i) {
      const int64_t at = lines.At(line, i);
      const float before = sum;
      sum += ToFloat(x[at]);
      y[at] = FromFloat<T>(lines.exclusive ? before : sum);
    }
  });
}

template <typename T>
void SumLong(const CudaQueue& queue, const CumSumLines& all, const T* x, T* y) {
  const CumSumLines lines = all;
  ForTeams(queue, "CumSumLong", lines.count, [=] CREMA_HOST_DEVICE(const Team& team, int64_t line) {
    const int64_t piece = (lines.size + Team::kThreads - 1) / Team::kThreads;
    const auto end = [&](int64_t t) {
      return (t + 1) * piece < lines.size ? (t + 1) * piece : lines.size;
    };
    float* sums = team.Shared();  // by piece
    team.For(Team::kThreads, [&](int64_t t) {
      float sum = 0;
      for (int64_t i = t * piece; i < end(t); ++i) sum += ToFloat(x[lines.At(line, i)]);
      sums[t] = sum;
    });
    team.For(Team::kThreads, [&](int64_t t) {
      float sum = 0;
      for (int64_t before = 0; before < t; ++before) sum += sums[before];
      for (int64_t i = t * piece; i < end(t); ++i) {
        const int64_t at = lines.At(line, i);
        const float before = sum;
        sum += ToFloat(x[at]);
        y[at] = FromFloat<T>(lines.exclusive ? before : sum);
      }
    });
  });
}

template <typename T>
void Sum(const CudaQueue& queue, const CumSumLines& lines, const T* x, T* y) {
  if (lines.size <= 128) return SumShort(queue, lines, x, y);
  SumLong(queue, lines, x, y);
}

struct GpuCumSum {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    Sum(args.queue, CumSumLines(layer, args.inputs[0].shape(), false), args.x(), args.y());
  }
  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    Sum(args.queue, CumSumLines(layer, args.input_grads[0].shape(), true), args.dy(), args.dx());
  }
};

}  // namespace

void RegisterCumSumCuda(Registry& registry) {
  registry.AddImplementation("CumSum", CudaImplementation<GpuCumSum>());
}

}  // namespace crema
