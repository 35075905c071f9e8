// The layer of scaled_softsign.cc for the CPU and the GPU, which share the formulas.
#include <crema/plugin.h>

#include <cmath>

namespace {

template <typename T>
__host__ __device__ T Softsign(T scale, T x) {
  return scale * x / (1 + fabs(x));
}
template <typename T>
__host__ __device__ T SoftsignGradient(T scale, T x, T dy) {
  const T below = 1 + fabs(x);
  return scale * dy / (below * below);
}

__global__ void ForwardKernel(int64_t count, float scale, const float* x, float* y) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < count) y[i] = Softsign(scale, x[i]);
}
__global__ void BackwardKernel(int64_t count, float scale, const float* x, const float* dy,
                               float* dx) {
  const int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  if (i < count) dx[i] = SoftsignGradient(scale, x[i], dy[i]);
}

// Launches on the stream of the pass, without waiting.
template <typename... Parameters, typename... Args>
void Launch(void (*kernel)(int64_t, Parameters...), void* stream, int64_t count, Args... args) {
  constexpr int kThreads = 256;
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(count, args...);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

class ScaledSoftsign {
 public:
  explicit ScaledSoftsign(const crema::plugin::Params& params)
      : scale_(static_cast<float>(params.Number("scale", 1))) {}

  void Infer(crema::plugin::Infer& infer) const {
    infer.SetTop(0, infer.bottom(0));
    infer.SetReach(crema::plugin::Reach::kElement);
    infer.BackwardReadsBottom(0);
  }

  template <typename T>
  void Forward(const crema::plugin::Pass<T>& pass) const {
    const T scale = scale_, *x = pass.bottom().data();
    T* y = pass.top().data();
    pass.ParallelFor(pass.top().count(), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = Softsign(scale, x[i]);
    });
  }
  template <typename T>
  void Backward(const crema::plugin::Pass<T>& pass) const {
    const T scale = scale_, *x = pass.bottom().data();
    const T* dy = pass.top_gradient().data();
    T* dx = pass.bottom_gradient().data();
    pass.ParallelFor(pass.bottom_gradient().count(), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) dx[i] = SoftsignGradient(scale, x[i], dy[i]);
    });
  }

  void CudaForward(const crema::plugin::Pass<float>& pass) const {
    Launch(ForwardKernel, pass.stream(), pass.top().count(), scale_, pass.bottom().data(),
           pass.top().data());
  }
  void CudaBackward(const crema::plugin::Pass<float>& pass) const {
    Launch(BackwardKernel, pass.stream(), pass.bottom_gradient().count(), scale_,
           pass.bottom().data(), pass.top_gradient().data(), pass.bottom_gradient().data());
  }

 private:
  const float scale_;
};

}  // namespace

CREMA_PLUGIN("softsign", "1.0", Describe<ScaledSoftsign>("ScaledSoftsign"))
