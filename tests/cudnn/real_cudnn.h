// cuDNN itself, asked about a GPU that is only described.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string_view>

#include "cudnn/cudnn_fixture.h"

namespace crema::test {

// GPUs as cuDNN writes them: of compute capability 9.0, and 8.0.
inline constexpr std::string_view kHopper =
    R"({"deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "maxGridSize": [2147483647, 65535,
    65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132,
    "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
    "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
    "l2CacheSize": 52428800, "totalGlobalMem": 150754820096, "deviceName": "described"})";

inline constexpr std::string_view kAmpere =
    R"({"deviceVer": 800, "driverVer": 13000, "cudaDeviceId": 0, "maxGridSize": [2147483647, 65535,
    65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 108,
    "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 166912,
    "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
    "supportCoopLaunch": 1, "smClockRateKHz": 1410000, "memClockRateKHz": 1593000,
    "l2CacheSize": 41943040, "totalGlobalMem": 85899345920, "deviceName": "described"})";

// The library, with the properties that a handle would have.
struct Described {
  CudnnLibrary library{};
  cudnnBackendDescriptor_t gpu = nullptr;
};

inline Described& TheLibrary() {
  static Described described;
  return described;
}

inline cudnnStatus_t SetWithoutHandle(cudnnBackendDescriptor_t descriptor,
                                      cudnnBackendAttributeName_t name,
                                      cudnnBackendAttributeType_t type, int64_t count,
                                      const void* values) {
  const Described& real = TheLibrary();
  const auto set_gpu = [&](cudnnBackendAttributeName_t of) {
    return real.library.backend_set_attribute(descriptor, of, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                              &real.gpu);
  };
  if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE) return CUDNN_STATUS_SUCCESS;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
    return set_gpu(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  if (name == CUDNN_ATTR_ENGINEHEUR_MODE) {
    const cudnnStatus_t status = set_gpu(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  return real.library.backend_set_attribute(descriptor, name, type, count, values);
}

inline cudnnStatus_t NoHandle(cudnnHandle_t* handle) {
  *handle = nullptr;
  return CUDNN_STATUS_SUCCESS;
}

template <typename Function>
bool Find(void* file, const char* symbol, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(file, symbol));
  return *function != nullptr;
}

// Skipped if cuDNN is missing or too old.
class RealCudnnTest : public testing::Test {
 protected:
  void SetUp() override {
    void* file = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) GTEST_SKIP() << "cuDNN is not here: " << dlerror();
    CudnnLibrary& real = TheLibrary().library;
    ASSERT_TRUE(Find(file, "cudnnGetVersion", &real.version) &&
                Find(file, "cudnnGetErrorString", &real.error_string) &&
                Find(file, "cudnnGetLastErrorString", &real.last_error_string) &&
                Find(file, "cudnnBackendCreateDescriptor", &real.backend_create) &&
                Find(file, "cudnnBackendDestroyDescriptor", &real.backend_destroy) &&
                Find(file, "cudnnBackendSetAttribute", &real.backend_set_attribute) &&
                Find(file, "cudnnBackendGetAttribute", &real.backend_get_attribute) &&
                Find(file, "cudnnBackendFinalize", &real.backend_finalize));
    if (real.version() < 91900) GTEST_SKIP() << "that cuDNN needs a GPU to be asked";
    AskAbout(kHopper);
    functions_ = real;
    functions_.create = NoHandle;
    functions_.destroy = [](cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; };
    functions_.backend_set_attribute = SetWithoutHandle;
    stand_in_ = std::make_unique<CudnnStandIn>(functions_);
  }
  void TearDown() override {
    stand_in_.reset();
    Forget();
  }

  static void AskAbout(std::string_view described) {
    const CudnnLibrary& real = TheLibrary().library;
    cudnnBackendDescriptor_t& gpu = TheLibrary().gpu;
    Forget();
    ASSERT_EQ(real.backend_create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &gpu), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(
        real.backend_set_attribute(gpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                   static_cast<int64_t>(described.size()), described.data()),
        CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(real.backend_finalize(gpu), CUDNN_STATUS_SUCCESS);
  }

 private:
  static void Forget() {
    if (TheLibrary().gpu != nullptr) TheLibrary().library.backend_destroy(TheLibrary().gpu);
    TheLibrary().gpu = nullptr;
  }

  CudnnLibrary functions_{};
  std::unique_ptr<CudnnStandIn> stand_in_;
};

}  // namespace crema::test
