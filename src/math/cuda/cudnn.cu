#include <array>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/cudnn.h"
#include "math/cuda/replaceable_library.h"
#include "math/cuda/shared_library.h"

namespace crema {
namespace {

void FindGraphFunctions(const SharedLibrary& file, CudnnLibrary* library) {
  file.Find("cudnnBackendCreateDescriptor", &library->backend_create);
  file.Find("cudnnBackendDestroyDescriptor", &library->backend_destroy);
  file.Find("cudnnBackendSetAttribute", &library->backend_set_attribute);
  file.Find("cudnnBackendGetAttribute", &library->backend_get_attribute);
  file.Find("cudnnBackendFinalize", &library->backend_finalize);
  file.Find("cudnnBackendExecute", &library->backend_execute);
}

void FindSingleOperations(const SharedLibrary& file, CudnnLibrary* library) {
  file.Find("cudnnCreateTensorDescriptor", &library->create_tensor);
  file.Find("cudnnDestroyTensorDescriptor", &library->destroy_tensor);
  file.Find("cudnnSetTensor4dDescriptorEx", &library->set_tensor_4d);
  file.Find("cudnnSetTensorNdDescriptor", &library->set_tensor_nd);
  file.Find("cudnnCreatePoolingDescriptor", &library->create_pooling);
  file.Find("cudnnDestroyPoolingDescriptor", &library->destroy_pooling);
  file.Find("cudnnSetPooling2dDescriptor", &library->set_pooling_2d);
  file.Find("cudnnPoolingForward", &library->pooling_forward);
  file.Find("cudnnPoolingBackward", &library->pooling_backward);
  file.Find("cudnnSoftmaxForward", &library->softmax_forward);
  file.Find("cudnnSoftmaxBackward", &library->softmax_backward);
  file.Find("cudnnCreateLRNDescriptor", &library->create_lrn);
  file.Find("cudnnDestroyLRNDescriptor", &library->destroy_lrn);
  file.Find("cudnnSetLRNDescriptor", &library->set_lrn);
  file.Find("cudnnLRNCrossChannelForward", &library->lrn_forward);
  file.Find("cudnnLRNCrossChannelBackward", &library->lrn_backward);
  file.Find("cudnnCreateActivationDescriptor", &library->create_activation);
  file.Find("cudnnDestroyActivationDescriptor", &library->destroy_activation);
  file.Find("cudnnSetActivationDescriptor", &library->set_activation);
  file.Find("cudnnActivationForward", &library->activation_forward);
  file.Find("cudnnActivationBackward", &library->activation_backward);
  file.Find("cudnnBatchNormalizationForwardTraining", &library->batch_norm_forward_training);
  file.Find("cudnnBatchNormalizationForwardInference", &library->batch_norm_forward_inference);
  file.Find("cudnnBatchNormalizationBackward", &library->batch_norm_backward);
}

CudnnLibrary Load() {
  const SharedLibrary file("cuDNN", StrCat("libcudnn.so.", CUDNN_MAJOR));
  CudnnLibrary library{};
  file.Find("cudnnGetVersion", &library.version);
  file.Find("cudnnCreate", &library.create);
  file.Find("cudnnDestroy", &library.destroy);
  file.Find("cudnnSetStream", &library.set_stream);
  file.Find("cudnnGetErrorString", &library.error_string);
  file.Find("cudnnGetLastErrorString", &library.last_error_string);
  FindGraphFunctions(file, &library);
  FindSingleOperations(file, &library);
  return library;
}

const ReplaceableLibrary<CudnnLibrary>& Library() {
  static const ReplaceableLibrary<CudnnLibrary> library("cuDNN", Load);
  return library;
}

struct DestroyCudnn {
  const CudnnLibrary* library;
  void operator()(cudnnHandle_t handle) const noexcept { library->destroy(handle); }
};

}  // namespace

std::string WhyNoCudnn() { return Library().WhyNot(); }

const CudnnLibrary& Cudnn() { return Library().Get(); }

void CheckCudnn(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const CudnnLibrary& library = Cudnn();
  std::array<char, 512> last{};
  library.last_error_string(last.data(), last.size());
  last.back() = '\0';
  const bool memory = status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
                      status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  Fail(memory ? ErrorCode::kOutOfMemory : ErrorCode::kDeviceFailure,
       StrCat(call, " failed: ", library.error_string(status), last[0] == '\0' ? "" : "; ",
              last.data()));
}

CudnnStandIn::CudnnStandIn(const CudnnLibrary& functions) { Library().Replace(&functions); }
CudnnStandIn::~CudnnStandIn() { Library().Replace(nullptr); }
bool CudnnStandIn::IsThere() { return Library().replaced(); }

cudnnContext* CudaQueue::cudnn() const {
  if (cudnn_ != nullptr) return cudnn_.get();
  const CudnnLibrary& library = Cudnn();
  Bind();
  cudnnHandle_t handle = nullptr;
  CheckCudnn(library.create(&handle), "cudnnCreate");
  cudnn_ = {handle, DestroyCudnn{&library}};
  try {
    CheckCudnn(library.set_stream(handle, stream_), "cudnnSetStream");
  } catch (...) {
    cudnn_.reset();
    throw;
  }
  return handle;
}

}  // namespace crema
