// cuDNN itself judges our graphs: it can be asked about a GPU that is only described, so this
// needs the library and no GPU. Nothing is computed.
#include <dlfcn.h>

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"
#include "cudnn/cudnn_fixture.h"
#include "math/cuda/cudnn_conv.h"
#include "math/cuda/cudnn_conv_graph.h"

namespace crema::test {
namespace {

// Of compute capability 9.0, as cuDNN writes them.
constexpr std::string_view kGpu =
    R"({"deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "maxGridSize": [2147483647, 65535,
    65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132,
    "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
    "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
    "l2CacheSize": 52428800, "totalGlobalMem": 150754820096, "deviceName": "described"})";

// The library with what it would have from a handle.
struct Described {
  CudnnLibrary library{};
  cudnnBackendDescriptor_t gpu = nullptr;
};

Described& TheLibrary() {
  static Described described;
  return described;
}

cudnnStatus_t SetWithoutHandle(cudnnBackendDescriptor_t descriptor,
                               cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                               int64_t count, const void* values) {
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

template <typename Function>
bool Find(void* file, const char* symbol, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(file, symbol));
  return *function != nullptr;
}

class RealCudnn : public testing::Test {
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
    cudnnBackendDescriptor_t& gpu = TheLibrary().gpu;
    ASSERT_EQ(real.backend_create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &gpu), CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(
        real.backend_set_attribute(gpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                   static_cast<int64_t>(kGpu.size()), kGpu.data()),
        CUDNN_STATUS_SUCCESS);
    ASSERT_EQ(real.backend_finalize(gpu), CUDNN_STATUS_SUCCESS);
    functions_ = real;
    functions_.backend_set_attribute = SetWithoutHandle;
    stand_in_ = std::make_unique<CudnnStandIn>(functions_);
  }
  void TearDown() override {
    stand_in_.reset();
    if (TheLibrary().gpu != nullptr) TheLibrary().library.backend_destroy(TheLibrary().gpu);
    TheLibrary().gpu = nullptr;
  }

  // Why it has no plan; empty: it has one within the bound.
  static std::string Refusal(const CudnnConvSpec& spec) {
    try {
      const auto graph = MakeCudnnConvGraph(nullptr, spec);
      for (const bool fallback : {false, true}) {
        for (const CudnnEngine& engine : CudnnConvEngines(*graph, spec, fallback)) {
          try {
            const CudnnPlan plan(nullptr, graph, engine);
            if (plan.workspace() <= CudnnWorkspaceBound(spec)) return "";
          } catch (const Error&) {  // the next one may
          }
        }
      }
    } catch (const Error& error) {
      return error.what();
    }
    return "no engine";
  }

  CudnnLibrary functions_{};
  std::unique_ptr<CudnnStandIn> stand_in_;
};

CudnnConvSpec Spec(int64_t groups, int64_t in, int64_t out, CudnnConvSpec::Axis axis) {
  CudnnConvSpec spec;
  spec.batch = 4;
  spec.groups = groups;
  spec.in_channels = in;
  spec.out_channels = out;
  spec.axes = {axis, axis};
  return spec;
}

TEST_F(RealCudnn, TakesEveryPassOfUsualConvolutions) {
  const std::vector<CudnnConvSpec> shapes{
      Spec(1, 3, 64, {224, 112, 7, 2, 3, 1}),  Spec(1, 64, 64, {56, 56, 3, 1, 1, 1}),
      Spec(1, 64, 256, {56, 56, 1, 1, 0, 1}),  Spec(1, 256, 512, {28, 14, 1, 2, 0, 1}),
      Spec(2, 96, 256, {27, 27, 5, 1, 2, 1}),  Spec(1, 512, 512, {14, 14, 3, 1, 2, 2}),
      Spec(32, 32, 32, {112, 112, 3, 1, 1, 1})};
  for (CudnnConvSpec spec : shapes) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      spec.dtype = dtype;
      for (const bool channels_last : {false, true}) {
        spec.channels_last = channels_last;
        spec.tf32 = channels_last && dtype == DType::kF32;
        for (const ConvPass pass : {ConvPass::kForward, ConvPass::kToInput, ConvPass::kToWeights}) {
          spec.pass = pass;
          EXPECT_EQ(Refusal(spec), "") << Describe(spec);
        }
      }
    }
  }
}

TEST_F(RealCudnn, TakesThreeAxesOfSpace) {
  CudnnConvSpec spec = Spec(1, 16, 32, {14, 14, 3, 1, 1, 1});
  spec.axes.push_back(spec.axes[0]);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    spec.dtype = dtype;
    for (const ConvPass pass : {ConvPass::kForward, ConvPass::kToInput, ConvPass::kToWeights}) {
      spec.pass = pass;
      EXPECT_EQ(Refusal(spec), "") << Describe(spec);
    }
  }
}

// Ranges of blobs begin at any element.
TEST_F(RealCudnn, TakesMemoryThatIsAlignedToElements) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    CudnnConvSpec spec = Spec(1, 64, 64, {56, 56, 3, 1, 1, 1});
    spec.dtype = dtype;
    spec.alignment = static_cast<int64_t>(SizeOf(dtype));
    for (const ConvPass pass : {ConvPass::kToInput, ConvPass::kToWeights, ConvPass::kForward}) {
      spec.pass = pass;
      EXPECT_EQ(Refusal(spec), "") << Describe(spec);
    }
    spec.sum = spec.bias = true;
    spec.relu = 0;
    EXPECT_EQ(Refusal(spec), "") << Describe(spec);
  }
}

TEST_F(RealCudnn, FusesBiasSumAndRelu) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    CudnnConvSpec spec = Spec(1, 64, 64, {56, 56, 3, 1, 1, 1});
    spec.dtype = dtype;
    spec.bias = true;
    EXPECT_EQ(Refusal(spec), "") << Describe(spec);
    spec.relu = 0;
    EXPECT_EQ(Refusal(spec), "") << Describe(spec);
    spec.sum = true;
    EXPECT_EQ(Refusal(spec), "") << Describe(spec);
    spec.channels_last = true;
    spec.tf32 = dtype == DType::kF32;
    EXPECT_EQ(Refusal(spec), "") << Describe(spec);
  }
}

// The first of what cuDNN proposes.
TEST_F(RealCudnn, MultipliesOnTensorCoresInChannelsLast) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const bool fused : {false, true}) {
      CudnnConvSpec spec = Spec(1, 64, 64, {56, 56, 3, 1, 1, 1});
      spec.dtype = dtype;
      spec.channels_last = true;
      spec.sum = spec.bias = fused;
      if (fused) spec.relu = 0;
      for (const ConvPass pass : {ConvPass::kForward, ConvPass::kToInput, ConvPass::kToWeights}) {
        if (fused && pass != ConvPass::kForward) continue;
        spec.pass = pass;
        EXPECT_EQ(Refusal(spec), "") << Describe(spec);
        const auto graph = MakeCudnnConvGraph(nullptr, spec);
        const std::vector<CudnnEngine> engines = CudnnConvEngines(*graph, spec, false);
        ASSERT_FALSE(engines.empty()) << Describe(spec);
        EXPECT_TRUE(engines[0].Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) << Describe(spec);
      }
    }
  }
}

// Why rows in NCHW are charged for it: their workspaces have room for input and output once more.
TEST_F(RealCudnn, TurnsNchwAroundForTensorCores) {
  CudnnConvSpec spec = Spec(1, 64, 64, {56, 56, 3, 1, 1, 1});
  const auto workspace = [&] {
    const auto graph = MakeCudnnConvGraph(nullptr, spec);
    return CudnnPlan(nullptr, graph, CudnnConvEngines(*graph, spec, false).at(0)).workspace();
  };
  spec.tf32 = true;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    spec.dtype = dtype;
    const int64_t blobs = static_cast<int64_t>(SizeOf(dtype)) * (spec.InCount() + spec.OutCount());
    for (const ConvPass pass : {ConvPass::kForward, ConvPass::kToInput, ConvPass::kToWeights}) {
      spec.pass = pass;
      spec.channels_last = false;
      // Of f32 the forward pass may turn one of the two.
      const bool one = dtype == DType::kF32 && pass == ConvPass::kForward;
      EXPECT_GE(workspace(), one ? blobs / 2 : blobs) << Describe(spec);
      spec.channels_last = true;
      EXPECT_LT(workspace(), blobs / 10) << Describe(spec);
    }
  }
}

TEST_F(RealCudnn, RefusesWithWords) {
  CudnnConvSpec spec = Spec(1, 64, 64, {56, 57, 3, 1, 1, 1});  // one more than there is
  const std::string reason = Refusal(spec);
  EXPECT_NE(reason, "");
  EXPECT_NE(reason, "no engine");
}

}  // namespace
}  // namespace crema::test
