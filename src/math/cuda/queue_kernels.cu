// Kernels of sessions, besides those of their layers.
#include "math/cuda/launch.cuh"

namespace crema {
namespace {

template <typename T>
void FillElements(const CudaQueue& queue, int64_t count, float value, T* to) {
  ForElements(queue, "Fill", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { to[i] = FromFloat<T>(value); });
}

template <typename T>
void FillWithProduct(const CudaQueue& queue, int64_t count, double value, const double* factor,
                     T* to) {
  ForElements(queue, "FillScaled", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    to[i] = FromFloat<T>(static_cast<float>(value * *factor));
  });
}

template <typename T>
void AddElements(const CudaQueue& queue, int64_t count, double factor, const T* from, double* to) {
  ForTeams(queue, "AddSum", 1, [=] CREMA_HOST_DEVICE(const Team& team, int64_t) {
    const double sum =
        team.Sum(count, [&](int64_t i) { return static_cast<double>(ToFloat(from[i])); });
    team.For(1, [&](int64_t) { *to += factor * sum; });
  });
}

void CountPass(const CudaQueue& queue, uint64_t* step, double* sum) {
  ForElements(queue, "BeginPass", 1, [=] CREMA_HOST_DEVICE(int64_t) {
    ++*step;
    *sum = 0;
  });
}

void StoreNumber(const CudaQueue& queue, uint64_t value, uint64_t* to) {
  ForElements(queue, "Store", 1, [=] CREMA_HOST_DEVICE(int64_t) { *to = value; });
}

}  // namespace

void CudaQueue::Store(uint64_t value, uint64_t* to) {
  LosingQueue(this, [&] {
    Bind();
    StoreNumber(*this, value, to);
  });
}

void CudaQueue::Fill(DType dtype, int64_t count, float value, void* to) {
  LosingQueue(this, [&] {
    Bind();
    DispatchCudaFloat(
        dtype, [&]<typename T>(T) { FillElements(*this, count, value, static_cast<T*>(to)); });
  });
}

void CudaQueue::FillScaled(DType dtype, int64_t count, double value, const double* factor,
                           void* to) {
  Bind();
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    FillWithProduct(*this, count, value, factor, static_cast<T*>(to));
  });
}

void CudaQueue::AddSum(DType dtype, int64_t count, double factor, const void* from, double* to) {
  Bind();
  DispatchCudaFloat(dtype, [&]<typename T>(T) {
    AddElements(*this, count, factor, static_cast<const T*>(from), to);
  });
}

void CudaQueue::BeginPass(uint64_t* step, double* sum) {
  Bind();
  CountPass(*this, step, sum);
}

}  // namespace crema
