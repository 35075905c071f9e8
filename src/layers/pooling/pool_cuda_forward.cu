// Forward passes of pool_cuda.h.
#include <cfloat>
#include <cmath>

#include "layers/pooling/pool_cuda.cuh"

namespace crema {
namespace {

// Destinations of outputs of type T.
template <typename T>
struct Outputs {
  T* y;
  T* positions;  // may be null
  PoolIndex index;
  PoolLayout layout;
  int64_t lanes;

  // Sets output `i` of all, which belongs to window `window`: the value of one cell, and its
  // number; -1 means none.
  template <int kMost>
  CREMA_HOST_DEVICE void Set(const SlidingWindow<kMost>& w, int64_t i, int64_t window, float value,
                             int64_t cell) const {
    const int64_t at = lanes == 1 ? layout.At(i / w.out_size, window) : i;
    y[at] = FromFloat<T>(value);
    if (positions != nullptr) positions[at] = FromFloat<T>(static_cast<float>(cell));
    if (index.data == nullptr) return;
    index.Set(i, cell < 0 ? -1 : index.Of(w, w.WindowAt(window), w.CellAt(cell)));
  }
};

template <int kLanes, typename T, int kMost>
void MaxLanes(const CudaQueue& queue, const SlidingWindow<kMost>& sliding, int64_t planes,
              const T* x, const Outputs<T>& outputs) {
  const SlidingWindow<kMost> w = sliding;
  const Outputs<T> to = outputs;
  ForElements(queue, "MaxPool", planes * w.out_size / kLanes, [=] CREMA_HOST_DEVICE(int64_t t) {
    const int64_t i = t * kLanes;
    const PoolElement at(i, w.out_size, to.lanes);
    const T* plane = x + at.Start(w.in_size, to.lanes);
    float best[kLanes];
    int64_t taken[kLanes];
    for (int k = 0; k < kLanes; ++k) {
      best[k] = -FLT_MAX;
      taken[k] = -1;
    }
    WindowCells<kMost>(w, w.WindowAt(at.number)).For(w, [&](int64_t cell) {
      for (int k = 0; k < kLanes; ++k) {
        const float value = ToFloat(plane[cell * to.lanes + k]);
        if (!(value > best[k])) continue;
        best[k] = value;
        taken[k] = cell;
      }
    });
    for (int k = 0; k < kLanes; ++k) to.Set(w, i + k, at.number, best[k], taken[k]);
  });
}

template <typename T, int kMost>
void Max(const CudaQueue& queue, const SlidingWindow<kMost>& w, int64_t planes, const T* x,
         const Outputs<T>& outputs) {
  if (PoolLanes(outputs.lanes) == kPoolLanes) {
    return MaxLanes<kPoolLanes>(queue, w, planes, x, outputs);
  }
  MaxLanes<1>(queue, w, planes, x, outputs);
}

template <typename T, int kMost>
void MaxOfLargeWindows(const CudaQueue& queue, const SlidingWindow<kMost>& sliding, int64_t planes,
                       const T* x, const Outputs<T>& outputs) {
  const SlidingWindow<kMost> w = sliding;
  const Outputs<T> to = outputs;
  ForTeams(queue, "MaxPool", planes * w.out_size,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t i) {
             const T* plane = x + i / w.out_size * w.in_size;
             const WindowCells<kMost> cells(w, w.WindowAt(i % w.out_size));
             // Maps NaN, and other values that cannot be a maximum, to -FLT_MAX.
             const auto value = [&](int64_t j) {
               const float given = ToFloat(plane[cells.Cell(w, j)]);
               return given > -FLT_MAX ? given : -FLT_MAX;
             };
             const int64_t best = team.ArgMax(cells.count, value);
             const bool none = best < 0 || value(best) == -FLT_MAX;
             team.For(1, [&](int64_t) {
               to.Set(w, i, i % w.out_size, none ? -FLT_MAX : value(best),
                      none ? -1 : cells.Cell(w, best));
             });
           });
}

// Draws as StochasticPool does, in the same order and precision, so that the same cells are drawn.
template <typename T, int kMost>
void Draw(const CudaQueue& queue, const SlidingWindow<kMost>& sliding, int64_t planes,
          const DeviceRandom& random, const T* x, const Outputs<T>& outputs) {
  const SlidingWindow<kMost> w = sliding;
  const Outputs<T> to = outputs;
  const DeviceRandom source = random;
  ForElements(queue, "StochasticPool", planes * w.out_size, [=] CREMA_HOST_DEVICE(int64_t i) {
    const T* plane = x + i / w.out_size * w.in_size;
    const WindowCells<kMost> cells(w, w.WindowAt(i % w.out_size));
    double total = 0;
    cells.For(w, [&](int64_t cell) { total += static_cast<double>(ToFloat(plane[cell])); });
    const int64_t element = to.layout.At(i / w.out_size, i % w.out_size);
    const double threshold = source.Now().Uniform(static_cast<uint64_t>(element)) * total;
    double running = 0;
    int64_t drawn = -1;
    bool done = false;
    cells.For(w, [&](int64_t cell) {
      if (done) return;
      const float value = ToFloat(plane[cell]);
      running += static_cast<double>(value);
      if (value > 0) drawn = cell;  // the last one, if rounding keeps the sum too low
      done = running > threshold;
    });
    to.Set(w, i, i % w.out_size, drawn < 0 ? 0.0F : ToFloat(plane[drawn]), drawn);
  });
}

template <typename T, int kMost>
void Average(const CudaPool& p, const SlidingWindow<kMost>& sliding, const T* x, T* y) {
  const SlidingWindow<kMost> w = sliding;
  const PoolDivisor divisor = DivisorOf(p);
  const PoolLayout layout = p.layout;
  const int64_t lanes = p.lanes;
  ForWindowSums(p, w, x, [=] CREMA_HOST_DEVICE(int64_t i, int64_t window, float sum, float) {
    const int64_t at = lanes == 1 ? layout.At(i / w.out_size, window) : i;
    y[at] = FromFloat<T>(sum / Divisor(w, divisor, w.WindowAt(window)));
  });
}

template <typename T, int kMost>
void Weighted(const CudaPool& p, const SlidingWindow<kMost>& w, const T* x, T* y) {
  const int64_t out = w.out_size;
  const PoolLayout layout = p.layout;
  ForWindowSums(p, w, x,
                [=] CREMA_HOST_DEVICE(int64_t i, int64_t window, float sum, float squares) {
                  y[layout.At(i / out, window)] = FromFloat<T>(sum > 0 ? squares / sum : 0.0F);
                });
}

template <typename T, int kMost>
void Pool(const CudaPool& p, const SlidingWindow<kMost>& w, const DeviceRandom& random, const T* x,
          const Outputs<T>& to) {
  switch (p.pool.method()) {
    case PoolPlanes::Method::kMax:
      return IsTeamWindow(p, w) ? MaxOfLargeWindows(p.queue, w, p.planes, x, to)
                                : Max(p.queue, w, p.planes, x, to);
    case PoolPlanes::Method::kDrawn:
      return Draw(p.queue, w, p.planes, random, x, to);
    case PoolPlanes::Method::kAverage:
      return Average(p, w, x, to.y);
    case PoolPlanes::Method::kWeighted:
      return Weighted(p, w, x, to.y);
  }
}

}  // namespace

void CudaPool::Forward(const void* x, void* y, void* index, void* positions,
                       const DeviceRandom& random) const {
  WithSlidingWindow(pool.window(), [&](const auto& w) {
    DispatchCudaFloat(dtype, [&]<typename T>(T) {
      const Outputs<T> to{static_cast<T*>(y), static_cast<T*>(positions),
                          MakePoolIndex(pool, index), layout, lanes};
      Pool(*this, w, random, static_cast<const T*>(x), to);
    });
  });
}

}  // namespace crema
