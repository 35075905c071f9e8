// Backward passes of pool_cuda.h.
#include "layers/pooling/pool_cuda.cuh"
#include "math/scratch.h"

namespace crema {
namespace {

// Position of an output in dy.
struct PlaceOfOutput {
  PoolLayout layout;
  int64_t out, lanes;

  CREMA_HOST_DEVICE int64_t Of(int64_t o) const {
    return lanes == 1 ? layout.At(o / out, o % out) : o;
  }
};

// Gathers for each cell the shares of all windows over it: dx = sum of share(window number, window,
// cell number, cell). Numbers are positions in y and x, with planes consecutive or in lanes.
template <int kLanes, typename T, int kMost, typename Share>
void GatherLanes(const CudaPool& p, const SlidingWindow<kMost>& sliding, bool add, T* dx,
                 const Share& share) {
  const SlidingWindow<kMost> w = sliding;
  const int64_t lanes = p.lanes, threads = p.planes * w.in_size / kLanes;
  ForElements(p.queue, "PoolBackward", threads, [=] CREMA_HOST_DEVICE(int64_t t) {
    const int64_t i = t * kLanes;
    const PoolElement at(i, w.in_size, lanes);
    const int64_t first = at.Start(w.out_size, lanes);
    const Place<kMost> cell = w.CellAt(at.number);
    float sums[kLanes];
    for (int k = 0; k < kLanes; ++k) sums[k] = add ? ToFloat(dx[i + k]) : 0.0F;
    w.ForWindowsOver(cell, [&](int64_t number, const Place<kMost>& window) {
      const int64_t o = first + number * lanes;
      for (int k = 0; k < kLanes; ++k) sums[k] += share(o + k, window, i + k, cell);
    });
    for (int k = 0; k < kLanes; ++k) dx[i + k] = FromFloat<T>(sums[k]);
  });
}

template <typename T, int kMost, typename Share>
void Gather(const CudaPool& p, const SlidingWindow<kMost>& w, bool add, T* dx, const Share& share) {
  if (PoolLanes(p.lanes) == kPoolLanes) return GatherLanes<kPoolLanes>(p, w, add, dx, share);
  GatherLanes<1>(p, w, add, dx, share);
}

template <typename T, int kMost>
void OneCell(const CudaPool& p, const SlidingWindow<kMost>& sliding, const T* dy,
             const void* indices, bool add, T* dx) {
  const SlidingWindow<kMost> w = sliding;
  const PoolIndex index = MakePoolIndex(p.pool, indices);
  const PlaceOfOutput place{p.layout, w.out_size, p.lanes};
  Gather(p, w, add, dx,
         [=] CREMA_HOST_DEVICE(int64_t o, const Place<kMost>& window, int64_t,
                               const Place<kMost>& cell) {
           if (index.Get(o) != index.Of(w, window, cell)) return 0.0F;
           return ToFloat(dy[place.Of(o)]);
         });
}

template <typename T, int kMost>
void Average(const CudaPool& p, const SlidingWindow<kMost>& sliding, const T* dy, bool add, T* dx) {
  const SlidingWindow<kMost> w = sliding;
  const PoolDivisor divisor = DivisorOf(p);
  const PlaceOfOutput place{p.layout, w.out_size, p.lanes};
  Gather(
      p, w, add, dx,
      [=] CREMA_HOST_DEVICE(int64_t o, const Place<kMost>& window, int64_t, const Place<kMost>&) {
        return ToFloat(dy[place.Of(o)]) / Divisor(w, divisor, window);
      });
}

// Computes for each window its gradient per unit and its mean, then for each cell the sum of its
// shares.
template <typename T, int kMost>
void Weighted(const CudaPool& p, const SlidingWindow<kMost>& w, const T* x, const T* dy, bool add,
              T* dx, float* scratch) {
  const int64_t out = w.out_size;
  const PoolLayout layout = p.layout;
  float* units = scratch;
  float* means = scratch + p.planes * out;
  ForWindowSums(p, w, x,
                [=] CREMA_HOST_DEVICE(int64_t i, int64_t window, float sum, float squares) {
                  units[i] = sum > 0 ? ToFloat(dy[layout.At(i / out, window)]) / sum : 0.0F;
                  means[i] = sum > 0 ? squares / sum : 0.0F;
                });
  Gather(p, w, add, dx,
         [=] CREMA_HOST_DEVICE(int64_t o, const Place<kMost>&, int64_t cell, const Place<kMost>&) {
           return units[o] * (2 * ToFloat(x[cell]) - means[o]);
         });
}

}  // namespace

size_t CudaPool::BackwardScratch(const PoolPlanes& pool, int64_t planes) {
  if (pool.method() != PoolPlanes::Method::kWeighted) return 0;
  return ScratchBytes<float>(2 * planes * pool.out());
}

void CudaPool::Backward(const void* x, const void* dy, void* dx, const void* index, bool add,
                        void* scratch) const {
  WithSlidingWindow(pool.window(), [&](const auto& w) {
    DispatchCudaFloat(dtype, [&]<typename T>(T) {
      const T* from = static_cast<const T*>(dy);
      T* to = static_cast<T*>(dx);
      if (pool.TakesOneCell()) return OneCell(*this, w, from, index, add, to);
      if (pool.method() == PoolPlanes::Method::kAverage) return Average(*this, w, from, add, to);
      Weighted(*this, w, static_cast<const T*>(x), from, add, to, static_cast<float*>(scratch));
    });
  });
}

}  // namespace crema
