// cuDNN 9, loaded when it is asked for first; see shared_library.h.
#pragma once

#if __has_include(<cudnn.h>)
#include <cudnn.h>

#include <string>
#include <string_view>

namespace crema {

// Its functions that we call.
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

// Why cuDNN cannot be used here: it cannot be loaded, it is of another age, there is no GPU. Empty
// when it can be. Found once a process. Thread safety: any number of threads.
std::string WhyNoCudnn();

// Throws kDeviceFailure with these words where it cannot be used. It stays loaded. Thread safety:
// any number of threads.
const CudnnLibrary& Cudnn();

// Throws kOutOfMemory or kDeviceFailure with cuDNN's words, unless `status` is success; `call`
// names the function.
void CheckCudnn(cudnnStatus_t status, std::string_view call);

// For tests: as long as this lives, these functions are cuDNN, and no GPU is needed. One at a time,
// while no other thread asks for cuDNN; the functions must outlive the queues that used them.
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
