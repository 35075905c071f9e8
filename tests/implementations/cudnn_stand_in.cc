#include "implementations/cudnn_stand_in.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <vector>

#include "implementations/element_memory.h"

struct cudnnContext {
  cudaStream_t stream = nullptr;
};
struct cudnnTensorStruct {
  bool set = false;
  crema::DType dtype = crema::DType::kF32;
  std::array<int64_t, 4> sizes{};
  std::array<int64_t, 4> strides{};

  int64_t At(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3];
  }
  bool SameShape(const cudnnTensorStruct& other) const {
    return set && other.set && dtype == other.dtype && sizes == other.sizes;
  }
};
struct cudnnPoolingStruct {
  bool set = false;
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  std::array<int64_t, 2> window{}, pad{}, stride{};
};
struct cudnnLRNStruct {
  bool set = false;
  int size = 0;
  double alpha = 0, beta = 0, k = 0;
};

namespace crema::test {
namespace {

struct Counts {
  std::atomic<int> living{0};
  std::atomic<bool> fail_next{false};
};
Counts& Global() {
  static Counts counts;
  return counts;
}

template <typename T>
cudnnStatus_t Make(T** made) {
  *made = new T();
  ++Global().living;
  return CUDNN_STATUS_SUCCESS;
}
template <typename T>
cudnnStatus_t Destroy(T* object) {
  if (object == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  delete object;
  --Global().living;
  return CUDNN_STATUS_SUCCESS;
}

bool Fails() { return Global().fail_next.exchange(false); }

double Factor(const void* factor) { return *static_cast<const float*>(factor); }

cudnnStatus_t SetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

const char* ErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED" : "another";
}
void LastErrorString(char* text, size_t size) {
  std::snprintf(text, size, "the stand-in was told to fail");
}

cudnnStatus_t SetTensor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int n, int c, int h,
                        int w, int n_stride, int c_stride, int h_stride, int w_stride) {
  const bool f16 = type == CUDNN_DATA_HALF;
  if (type != CUDNN_DATA_FLOAT && !f16) return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
  *tensor = {.set = true,
             .dtype = f16 ? DType::kF16 : DType::kF32,
             .sizes = {n, c, h, w},
             .strides = {n_stride, c_stride, h_stride, w_stride}};
  const bool positive = std::ranges::all_of(tensor->sizes, [](int64_t e) { return e > 0; });
  return positive ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

// body(n, c, h, w) of all elements.
template <typename Body>
void ForAll(const cudnnTensorStruct& tensor, const Body& body) {
  const auto& e = tensor.sizes;
  for (int64_t n = 0; n < e[0]; ++n) {
    for (int64_t c = 0; c < e[1]; ++c) {
      for (int64_t h = 0; h < e[2]; ++h) {
        for (int64_t w = 0; w < e[3]; ++w) body(n, c, h, w);
      }
    }
  }
}

// body(n, h, w) of all positions of the channels.
template <typename Body>
void ForAllPositions(const cudnnTensorStruct& tensor, const Body& body) {
  for (int64_t n = 0; n < tensor.sizes[0]; ++n) {
    for (int64_t h = 0; h < tensor.sizes[2]; ++h) {
      for (int64_t w = 0; w < tensor.sizes[3]; ++w) body(n, h, w);
    }
  }
}

double Load(const cudnnTensorStruct& tensor, const void* memory, int64_t n, int64_t c, int64_t h,
            int64_t w) {
  return LoadElement(tensor.dtype, memory, tensor.At(n, c, h, w));
}

cudnnStatus_t SetPooling(cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode,
                         cudnnNanPropagation_t nan, int window_h, int window_w, int pad_h,
                         int pad_w, int stride_h, int stride_w) {
  if (nan != CUDNN_NOT_PROPAGATE_NAN) return CUDNN_STATUS_NOT_SUPPORTED;
  *pooling = {.set = true,
              .mode = mode,
              .window = {window_h, window_w},
              .pad = {pad_h, pad_w},
              .stride = {stride_h, stride_w}};
  const bool bad = window_h <= pad_h || window_w <= pad_w || stride_h < 1 || stride_w < 1;
  return bad ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}

// The sizes that cudnnGetPooling2dForwardOutputDim gives.
bool Fits(const cudnnPoolingStruct& pooling, const cudnnTensorStruct& x,
          const cudnnTensorStruct& y) {
  if (!pooling.set || !x.set || !y.set || x.dtype != y.dtype) return false;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t moves = x.sizes[2 + i] + 2 * pooling.pad[i] - pooling.window[i];
    if (moves < 0 || y.sizes[2 + i] != 1 + moves / pooling.stride[i]) return false;
  }
  return x.sizes[0] == y.sizes[0] && x.sizes[1] == y.sizes[1];
}

// body(h, w) of the cells of the image in the window of output (h, w); gives their number.
template <typename Body>
int64_t ForWindow(const cudnnPoolingStruct& pooling, const cudnnTensorStruct& x, int64_t out_h,
                  int64_t out_w, const Body& body) {
  int64_t cells = 0;
  for (int64_t i = 0; i < pooling.window[0]; ++i) {
    for (int64_t j = 0; j < pooling.window[1]; ++j) {
      const int64_t h = out_h * pooling.stride[0] - pooling.pad[0] + i;
      const int64_t w = out_w * pooling.stride[1] - pooling.pad[1] + j;
      if (h < 0 || w < 0 || h >= x.sizes[2] || w >= x.sizes[3]) continue;
      body(h, w);
      ++cells;
    }
  }
  return cells;
}

double DivisorOf(const cudnnPoolingStruct& pooling, int64_t cells) {
  const bool all = pooling.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
  return static_cast<double>(all ? pooling.window[0] * pooling.window[1] : cells);
}

cudnnStatus_t PoolingForward(cudnnHandle_t, cudnnPoolingDescriptor_t pooling, const void* alpha,
                             cudnnTensorDescriptor_t x_desc, const void* x, const void* beta,
                             cudnnTensorDescriptor_t y_desc, void* y) {
  if (Fails()) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!Fits(*pooling, *x_desc, *y_desc)) return CUDNN_STATUS_BAD_PARAM;
  ForAll(*y_desc, [&](int64_t n, int64_t c, int64_t out_h, int64_t out_w) {
    double sum = 0, most = -HUGE_VAL;
    const int64_t cells = ForWindow(*pooling, *x_desc, out_h, out_w, [&](int64_t h, int64_t w) {
      const double value = Load(*x_desc, x, n, c, h, w);
      sum += value;
      most = value > most ? value : most;
    });
    const double result =
        pooling->mode == CUDNN_POOLING_MAX ? most : sum / DivisorOf(*pooling, cells);
    BlendElement(y_desc->dtype, y, y_desc->At(n, c, out_h, out_w), result, Factor(alpha),
                 Factor(beta));
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t PoolingBackward(cudnnHandle_t, cudnnPoolingDescriptor_t pooling, const void* alpha,
                              cudnnTensorDescriptor_t y_desc, const void* y,
                              cudnnTensorDescriptor_t dy_desc, const void* dy,
                              cudnnTensorDescriptor_t x_desc, const void* x, const void* beta,
                              cudnnTensorDescriptor_t dx_desc, void* dx) {
  if (Fails()) return CUDNN_STATUS_EXECUTION_FAILED;
  if (pooling->mode == CUDNN_POOLING_MAX) return CUDNN_STATUS_NOT_SUPPORTED;
  if (x == nullptr || y == nullptr) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (!Fits(*pooling, *dx_desc, *dy_desc) || !x_desc->SameShape(*dx_desc) ||
      !y_desc->SameShape(*dy_desc)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  std::vector<double> sums(static_cast<size_t>(dx_desc->sizes[0] * dx_desc->strides[0]), 0.0);
  ForAll(*dy_desc, [&](int64_t n, int64_t c, int64_t out_h, int64_t out_w) {
    const int64_t cells = ForWindow(*pooling, *dx_desc, out_h, out_w, [](int64_t, int64_t) {});
    const double share = Load(*dy_desc, dy, n, c, out_h, out_w) / DivisorOf(*pooling, cells);
    ForWindow(*pooling, *dx_desc, out_h, out_w, [&](int64_t h, int64_t w) {
      sums[static_cast<size_t>(dx_desc->At(n, c, h, w))] += share;
    });
  });
  ForAll(*dx_desc, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t at = dx_desc->At(n, c, h, w);
    BlendElement(dx_desc->dtype, dx, at, sums[static_cast<size_t>(at)], Factor(alpha),
                 Factor(beta));
  });
  return CUDNN_STATUS_SUCCESS;
}

bool IsSoftmax(cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode) {
  return algorithm == CUDNN_SOFTMAX_ACCURATE && mode == CUDNN_SOFTMAX_MODE_CHANNEL;
}

cudnnStatus_t SoftmaxForward(cudnnHandle_t, cudnnSoftmaxAlgorithm_t algorithm,
                             cudnnSoftmaxMode_t mode, const void* alpha,
                             cudnnTensorDescriptor_t x_desc, const void* x, const void* beta,
                             cudnnTensorDescriptor_t y_desc, void* y) {
  if (Fails()) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!IsSoftmax(algorithm, mode)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!x_desc->SameShape(*y_desc) || x == y) return CUDNN_STATUS_BAD_PARAM;
  ForAllPositions(*y_desc, [&](int64_t n, int64_t h, int64_t w) {
    const int64_t classes = x_desc->sizes[1];
    double top = -HUGE_VAL, sum = 0;
    for (int64_t c = 0; c < classes; ++c) top = std::max(top, Load(*x_desc, x, n, c, h, w));
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(Load(*x_desc, x, n, c, h, w) - top);
    for (int64_t c = 0; c < classes; ++c) {
      BlendElement(y_desc->dtype, y, y_desc->At(n, c, h, w),
                   std::exp(Load(*x_desc, x, n, c, h, w) - top) / sum, Factor(alpha), Factor(beta));
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t SoftmaxBackward(cudnnHandle_t, cudnnSoftmaxAlgorithm_t algorithm,
                              cudnnSoftmaxMode_t mode, const void* alpha,
                              cudnnTensorDescriptor_t y_desc, const void* y,
                              cudnnTensorDescriptor_t dy_desc, const void* dy, const void* beta,
                              cudnnTensorDescriptor_t dx_desc, void* dx) {
  if (Fails()) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!IsSoftmax(algorithm, mode)) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!y_desc->SameShape(*dy_desc) || !y_desc->SameShape(*dx_desc)) return CUDNN_STATUS_BAD_PARAM;
  // In place is allowed: an element is read before it is written.
  ForAllPositions(*y_desc, [&](int64_t n, int64_t h, int64_t w) {
    const int64_t classes = y_desc->sizes[1];
    double dot = 0;
    for (int64_t c = 0; c < classes; ++c) {
      dot += Load(*y_desc, y, n, c, h, w) * Load(*dy_desc, dy, n, c, h, w);
    }
    for (int64_t c = 0; c < classes; ++c) {
      const double result = Load(*y_desc, y, n, c, h, w) * (Load(*dy_desc, dy, n, c, h, w) - dot);
      BlendElement(dx_desc->dtype, dx, dx_desc->At(n, c, h, w), result, Factor(alpha),
                   Factor(beta));
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t SetLrn(cudnnLRNDescriptor_t lrn, unsigned size, double alpha, double beta, double k) {
  *lrn = {.set = true, .size = static_cast<int>(size), .alpha = alpha, .beta = beta, .k = k};
  const bool bad = size < CUDNN_LRN_MIN_N || size > CUDNN_LRN_MAX_N || k < CUDNN_LRN_MIN_K ||
                   beta < CUDNN_LRN_MIN_BETA;
  return bad ? CUDNN_STATUS_BAD_PARAM : CUDNN_STATUS_SUCCESS;
}

// body(channel) of the window around channel c.
template <typename Body>
void ForNeighbours(const cudnnLRNStruct& lrn, int64_t channels, int64_t c, const Body& body) {
  const int64_t before = (lrn.size - 1) / 2;
  const int64_t after = lrn.size - before - 1;
  for (int64_t k = std::max<int64_t>(0, c - before); k <= std::min(channels - 1, c + after); ++k) {
    body(k);
  }
}

// k + alpha / n * sum of squares of each element, at its place in memory.
std::vector<double> Scales(const cudnnLRNStruct& lrn, const cudnnTensorStruct& desc,
                           const void* x) {
  std::vector<double> scales(static_cast<size_t>(desc.sizes[0] * desc.strides[0]));
  ForAll(desc, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    double sum = 0;
    ForNeighbours(lrn, desc.sizes[1], c, [&](int64_t k) {
      const double value = Load(desc, x, n, k, h, w);
      sum += value * value;
    });
    scales[static_cast<size_t>(desc.At(n, c, h, w))] = lrn.k + lrn.alpha / lrn.size * sum;
  });
  return scales;
}

cudnnStatus_t LrnForward(cudnnHandle_t, cudnnLRNDescriptor_t lrn, cudnnLRNMode_t, const void* alpha,
                         cudnnTensorDescriptor_t x_desc, const void* x, const void* beta,
                         cudnnTensorDescriptor_t y_desc, void* y) {
  if (Fails()) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!lrn->set || !x_desc->SameShape(*y_desc)) return CUDNN_STATUS_BAD_PARAM;
  const std::vector<double> scales = Scales(*lrn, *x_desc, x);
  ForAll(*y_desc, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    const double scale = scales[static_cast<size_t>(x_desc->At(n, c, h, w))];
    BlendElement(y_desc->dtype, y, y_desc->At(n, c, h, w),
                 Load(*x_desc, x, n, c, h, w) * std::pow(scale, -lrn->beta), Factor(alpha),
                 Factor(beta));
  });
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t LrnBackward(cudnnHandle_t, cudnnLRNDescriptor_t lrn, cudnnLRNMode_t,
                          const void* alpha, cudnnTensorDescriptor_t y_desc, const void* y,
                          cudnnTensorDescriptor_t dy_desc, const void* dy,
                          cudnnTensorDescriptor_t x_desc, const void* x, const void* beta,
                          cudnnTensorDescriptor_t dx_desc, void* dx) {
  if (Fails()) return CUDNN_STATUS_EXECUTION_FAILED;
  if (!lrn->set || !x_desc->SameShape(*y_desc) || !x_desc->SameShape(*dy_desc) ||
      !x_desc->SameShape(*dx_desc)) {
    return CUDNN_STATUS_BAD_PARAM;
  }
  const std::vector<double> scales = Scales(*lrn, *x_desc, x);
  const auto scale = [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    return scales[static_cast<size_t>(x_desc->At(n, c, h, w))];
  };
  ForAll(*dx_desc, [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    double sum = 0;
    // Windows have an odd size here, so the channels whose windows contain this one are those in
    // its own.
    ForNeighbours(*lrn, x_desc->sizes[1], c, [&](int64_t k) {
      sum += Load(*dy_desc, dy, n, k, h, w) * Load(*y_desc, y, n, k, h, w) / scale(n, k, h, w);
    });
    const double direct = Load(*dy_desc, dy, n, c, h, w) * std::pow(scale(n, c, h, w), -lrn->beta);
    const double factor = 2 * lrn->alpha * lrn->beta / lrn->size;
    BlendElement(dx_desc->dtype, dx, dx_desc->At(n, c, h, w),
                 direct - factor * Load(*x_desc, x, n, c, h, w) * sum, Factor(alpha), Factor(beta));
  });
  return CUDNN_STATUS_SUCCESS;
}

CudnnLibrary MakeLibrary() {
  CudnnLibrary library{};
  library.create = Make<cudnnContext>;
  library.destroy = Destroy<cudnnContext>;
  library.set_stream = SetStream;
  library.version = [] { return size_t{CUDNN_VERSION}; };
  library.error_string = ErrorString;
  library.last_error_string = LastErrorString;
  library.create_tensor = Make<cudnnTensorStruct>;
  library.destroy_tensor = Destroy<cudnnTensorStruct>;
  library.set_tensor_4d = SetTensor;
  library.create_pooling = Make<cudnnPoolingStruct>;
  library.destroy_pooling = Destroy<cudnnPoolingStruct>;
  library.set_pooling_2d = SetPooling;
  library.pooling_forward = PoolingForward;
  library.pooling_backward = PoolingBackward;
  library.softmax_forward = SoftmaxForward;
  library.softmax_backward = SoftmaxBackward;
  library.create_lrn = Make<cudnnLRNStruct>;
  library.destroy_lrn = Destroy<cudnnLRNStruct>;
  library.set_lrn = SetLrn;
  library.lrn_forward = LrnForward;
  library.lrn_backward = LrnBackward;
  return library;
}

}  // namespace

const CudnnLibrary& CudnnOfTests() {
  static const CudnnLibrary library = MakeLibrary();
  return library;
}

int LivingCudnnObjects() { return Global().living; }
void FailNextCudnnOperation() { Global().fail_next = true; }

}  // namespace crema::test
