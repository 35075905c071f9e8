// cuDNN 9, loaded at the first use; see shared_library.h.
#pragma once

#if __has_include(<cudnn.h>)
#include <cudnn.h>

#include <string>
#include <string_view>

namespace crema {

// The functions that Crema calls.
struct CudnnLibrary {
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnGetLastErrorString) last_error_string;

  // Graphs.
  decltype(&cudnnBackendCreateDescriptor) backend_create;
  decltype(&cudnnBackendDestroyDescriptor) backend_destroy;
  decltype(&cudnnBackendSetAttribute) backend_set_attribute;
  decltype(&cudnnBackendGetAttribute) backend_get_attribute;
  decltype(&cudnnBackendFinalize) backend_finalize;
  decltype(&cudnnBackendExecute) backend_execute;

  // Single operations.
  decltype(&cudnnCreateTensorDescriptor) create_tensor;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor;
  decltype(&cudnnSetTensor4dDescriptorEx) set_tensor_4d;
  decltype(&cudnnSetTensorNdDescriptor) set_tensor_nd;
  decltype(&cudnnCreatePoolingDescriptor) create_pooling;
  decltype(&cudnnDestroyPoolingDescriptor) destroy_pooling;
  decltype(&cudnnSetPooling2dDescriptor) set_pooling_2d;
  decltype(&cudnnPoolingForward) pooling_forward;
  decltype(&cudnnPoolingBackward) pooling_backward;
  decltype(&cudnnSoftmaxForward) softmax_forward;
  decltype(&cudnnSoftmaxBackward) softmax_backward;
  decltype(&cudnnCreateLRNDescriptor) create_lrn;
  decltype(&cudnnDestroyLRNDescriptor) destroy_lrn;
  decltype(&cudnnSetLRNDescriptor) set_lrn;
  decltype(&cudnnLRNCrossChannelForward) lrn_forward;
  decltype(&cudnnLRNCrossChannelBackward) lrn_backward;
  decltype(&cudnnCreateActivationDescriptor) create_activation;
  decltype(&cudnnDestroyActivationDescriptor) destroy_activation;
  decltype(&cudnnSetActivationDescriptor) set_activation;
  decltype(&cudnnActivationForward) activation_forward;
  decltype(&cudnnActivationBackward) activation_backward;
  decltype(&cudnnBatchNormalizationForwardTraining) batch_norm_forward_training;
  decltype(&cudnnBatchNormalizationForwardInference) batch_norm_forward_inference;
  decltype(&cudnnBatchNormalizationBackward) batch_norm_backward;
};

// Returns why cuDNN cannot be used: it cannot be loaded, it has another major version, or there is
// no GPU. Empty if it can. Determined once per process. Thread safety: any number of threads.
std::string WhyNoCudnn();

// Throws kDeviceFailure with the reason of WhyNoCudnn if it cannot be used. It stays loaded. Thread
// safety: any number of threads.
const CudnnLibrary& Cudnn();

// Throws kOutOfMemory or kDeviceFailure with cuDNN's message, unless `status` is success; `call`
// names the function.
void CheckCudnn(cudnnStatus_t status, std::string_view call);

// For tests: while this object lives, its functions replace cuDNN, and no GPU is needed. One at a
// time, while no other thread uses cuDNN; the functions must outlive the queues that used them.
class CudnnStandIn {
 public:
  explicit CudnnStandIn(const CudnnLibrary& functions);
  ~CudnnStandIn();
  static bool IsThere();
  CudnnStandIn(const CudnnStandIn&) = delete;
  CudnnStandIn& operator=(const CudnnStandIn&) = delete;
};

}  // namespace crema
#endif
