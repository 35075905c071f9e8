// Graphs of operations for cuDNN's backend API: descriptors, engines and plans. If cuDNN does not
// support a request, functions throw kUnsupported with its message: a reason to do without cuDNN,
// not a failure of the GPU. Other errors are as in CheckCudnn. Thread safety: one thread at a time.
#pragma once

#if __has_include(<cudnn.h>)
#include <cudnn.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "math/cuda/cudnn.h"

namespace crema {

// As CheckCudnn, but kUnsupported for CUDNN_STATUS_NOT_SUPPORTED, CUDNN_STATUS_BAD_PARAM and
// related errors: nothing was run on the GPU.
void CheckCudnnGraph(cudnnStatus_t status, std::string_view call);

// Owns one descriptor: attributes are set, it is finalized, then read.
class CudnnDescriptor {
 public:
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type);
  ~CudnnDescriptor();
  CudnnDescriptor(CudnnDescriptor&& other) noexcept;
  CudnnDescriptor& operator=(CudnnDescriptor&&) = delete;

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  void Finalize();

  // Every attribute is an array.
  void SetArray(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                const void* values);
  void Set(cudnnBackendAttributeName_t name, std::span<const int64_t> values) {
    SetArray(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.data());
  }
  void SetPointers(cudnnBackendAttributeName_t name, std::span<void* const> values) {
    SetArray(name, CUDNN_TYPE_VOID_PTR, static_cast<int64_t>(values.size()), values.data());
  }
  void Set(cudnnBackendAttributeName_t name, const CudnnDescriptor& value) {
    SetArray(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.descriptor_);
  }
  void SetDescriptors(cudnnBackendAttributeName_t name,
                      std::span<const cudnnBackendDescriptor_t> values) {
    SetArray(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(values.size()),
             values.data());
  }
  void Set(cudnnBackendAttributeName_t name, cudnnHandle_t value) {
    SetArray(name, CUDNN_TYPE_HANDLE, 1, &value);
  }
  void Set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    SetArray(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  // Named by type, so that no argument is converted silently.
  void SetInteger(cudnnBackendAttributeName_t name, int64_t value) {
    SetArray(name, CUDNN_TYPE_INT64, 1, &value);
  }
  void SetFloat(cudnnBackendAttributeName_t name, float value) {
    SetArray(name, CUDNN_TYPE_FLOAT, 1, &value);
  }
  void SetDouble(cudnnBackendAttributeName_t name, double value) {
    SetArray(name, CUDNN_TYPE_DOUBLE, 1, &value);
  }
  void SetBool(cudnnBackendAttributeName_t name, bool value) {
    SetArray(name, CUDNN_TYPE_BOOLEAN, 1, &value);
  }

  // Writes up to `most` elements to `values` and returns their number; with null, returns the total
  // number.
  int64_t GetArray(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t most,
                   void* values) const;
  int64_t GetInteger(cudnnBackendAttributeName_t name) const;

 private:
  const CudnnLibrary* library_;  // created it
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

struct CudnnTensor {
  int64_t id = 0;  // in its graph; identifies its memory when a plan runs
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int64_t> sizes;    // batch, channels, spatial axes
  std::vector<int64_t> strides;  // elements
  int64_t alignment = 16;        // bytes
  bool is_virtual = false;       // between operations: it has no memory
};

// All spatial axes; sums are f32.
struct CudnnWindow {
  std::vector<int64_t> pad, stride, dilation;
};

struct CudnnPointwise {
  cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  double slope = 0;  // negative slope of CUDNN_POINTWISE_RELU_FWD
};

// Operations on tensors, in order. The descriptors live as long as the graph.
class CudnnGraph {
 public:
  // Returns the index of the tensor for operations.
  size_t AddTensor(const CudnnTensor& tensor);
  // y = w over x, dx = the transposed convolution of dy by w, dw = dy over x.
  void AddConvolution(const CudnnWindow& window, size_t x, size_t w, size_t y);
  void AddBackwardData(const CudnnWindow& window, size_t dy, size_t w, size_t dx);
  void AddBackwardFilter(const CudnnWindow& window, size_t x, size_t dy, size_t dw);
  // y = a function of x and b, such as x + b, with b broadcast along axes of size 1; or of x alone.
  void AddPointwise(const CudnnPointwise& pointwise, size_t x, const size_t* b, size_t y);
  void Finalize(cudnnHandle_t handle);

  const CudnnDescriptor& descriptor() const { return *graph_; }

 private:
  const CudnnDescriptor& WindowDescriptor(const CudnnWindow& window);
  const CudnnDescriptor& PointwiseDescriptor(const CudnnPointwise& pointwise);
  CudnnDescriptor& Keep(cudnnBackendDescriptorType_t type);

  std::vector<std::unique_ptr<CudnnDescriptor>> tensors_;
  std::vector<std::unique_ptr<CudnnDescriptor>> kept_;
  std::vector<cudnnBackendDescriptor_t> operations_;
  std::unique_ptr<CudnnDescriptor> graph_;
};

// One way to compute a graph.
struct CudnnEngine {
  CudnnDescriptor config;
  std::string name;  // "engine 34 (2)": its number, and its rank among the heuristics' proposals
  std::vector<cudnnBackendNumericalNote_t> notes;

  bool Has(cudnnBackendNumericalNote_t note) const;
};

// Returns the engines that the heuristics propose, best first; those of `fallback` are slower and
// support more. If there are none, `words`, unless null, is cuDNN's reason.
std::vector<CudnnEngine> CudnnEngines(const CudnnGraph& graph, bool fallback,
                                      std::string* words = nullptr);

// A prepared engine. It may run on any handle of the GPU that it was prepared for.
class CudnnPlan {
 public:
  CudnnPlan(cudnnHandle_t handle, std::shared_ptr<const CudnnGraph> graph,
            const CudnnEngine& engine);

  const std::string& name() const { return name_; }
  int64_t workspace() const { return workspace_; }  // bytes
  // Queues it. `data` is the memory of the tensors `ids`, which are all tensors that have memory.
  void Run(cudnnHandle_t handle, std::span<const int64_t> ids, std::span<void* const> data,
           void* workspace);

 private:
  const CudnnDescriptor& PackOf(std::span<const int64_t> ids, std::span<void* const> data,
                                void* workspace);

  std::string name_;
  std::shared_ptr<const CudnnGraph> graph_;
  CudnnDescriptor plan_;
  int64_t workspace_ = 0;
  // Cached from the last run: memory is the same in every pass of a session.
  std::unique_ptr<CudnnDescriptor> pack_;
  std::vector<void*> packed_;
};

}  // namespace crema
#endif
