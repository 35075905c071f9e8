// What cuDNN could do in training besides convolutions: the answers are in docs/design.md. Without
// a driver only engines that it has ready can be had; those that it compiles need one.
#include <array>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <vector>

#include "cudnn/real_cudnn.h"
#include "math/cuda/cudnn_graph.h"

namespace crema::test {
namespace {

using Extents = std::array<int64_t, 4>;
struct Part {
  cudnnBackendAttributeName_t name;
  size_t tensor;
};

// A graph in channels last with operations that CudnnGraph does not have.
class Fusion {
 public:
  explicit Fusion(cudnnDataType_t half) : half_(half) {}

  size_t Blob(const Extents& e) { return Add(half_, e, false); }
  // Between operations, in f32.
  size_t Between(const Extents& e) { return Add(CUDNN_DATA_FLOAT, e, true); }
  // Where a convolution reads it, of the type of its filters.
  size_t BetweenHalf(const Extents& e) { return Add(half_, e, true); }
  size_t Half(int64_t channels) { return Add(half_, {1, channels, 1, 1}, false); }
  size_t Float(int64_t channels) { return Add(CUDNN_DATA_FLOAT, {1, channels, 1, 1}, false); }

  void Convolve(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t how,
                cudnnBackendAttributeName_t alpha, cudnnBackendAttributeName_t beta,
                std::initializer_list<Part> parts) {
    CudnnDescriptor& window = Keep(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    const std::array<int64_t, 2> one{1, 1};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    window.SetInteger(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
    window.Set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    window.SetArray(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    for (const auto name :
         {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
          CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_ATTR_CONVOLUTION_DILATIONS}) {
      window.Set(name, one);
    }
    window.Finalize();
    Operation(type, parts, [&](CudnnDescriptor* made) {
      made->Set(how, window);
      made->SetFloat(alpha, 1);
      made->SetFloat(beta, 0);
    });
  }

  void Pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Part> parts) {
    CudnnDescriptor& how = Keep(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.SetArray(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    how.Set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    how.Finalize();
    Operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, parts, [&](CudnnDescriptor* made) {
      made->Set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    });
  }
  size_t Binary(cudnnPointwiseMode_t mode, size_t x, size_t b, const Extents& e) {
    const size_t y = Between(e);
    Pointwise(mode, {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x},
                     {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b},
                     {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}});
    return y;
  }

  template <typename More>
  void Operation(cudnnBackendDescriptorType_t type, std::initializer_list<Part> parts,
                 const More& more) {
    CudnnDescriptor& made = Keep(type);
    for (const Part& part : parts) made.Set(part.name, *tensors_[part.tensor]);
    more(&made);
    made.Finalize();
    operations_.push_back(made.get());
  }

  // Whether one of its engines is ready.
  bool HasPlan() {
    CudnnDescriptor& graph = Keep(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.SetDescriptors(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations_);
    graph.Finalize();
    CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristics.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    heuristics.SetArray(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    heuristics.Finalize();
    const CudnnDescriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    cudnnBackendDescriptor_t into = config.get();
    if (heuristics.GetArray(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                            &into) == 0) {
      return false;
    }
    CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, cudnnHandle_t{});
    plan.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    plan.Finalize();
    return true;
  }

 private:
  size_t Add(cudnnDataType_t type, const Extents& e, bool is_virtual) {
    const Extents strides{e[1] * e[2] * e[3], 1, e[1] * e[3], e[1]};
    CudnnDescriptor& made = Keep(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made.Set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    made.Set(CUDNN_ATTR_TENSOR_DIMENSIONS, e);
    made.Set(CUDNN_ATTR_TENSOR_STRIDES, strides);
    made.SetInteger(CUDNN_ATTR_TENSOR_UNIQUE_ID, static_cast<int64_t>(tensors_.size()) + 1);
    made.SetInteger(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
    if (is_virtual) made.SetBool(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    made.Finalize();
    tensors_.push_back(&made);
    return tensors_.size() - 1;
  }
  CudnnDescriptor& Keep(cudnnBackendDescriptorType_t type) {
    kept_.push_back(std::make_unique<CudnnDescriptor>(type));
    return *kept_.back();
  }

  cudnnDataType_t half_;
  std::vector<std::unique_ptr<CudnnDescriptor>> kept_;
  std::vector<const CudnnDescriptor*> tensors_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

constexpr int64_t kChannels = 64;
constexpr Extents kX{32, kChannels, 56, 56}, kW{kChannels, kChannels, 3, 3};

size_t Forward(Fusion* f, size_t x) {
  const size_t y = f->Blob(kX);
  f->Convolve(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
              {{CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x},
               {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, f->Blob(kW)},
               {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y}});
  return y;
}

// Sums of channels and of their squares.
void Statistics(Fusion* f, size_t x) {
  f->Operation(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR,
               {{CUDNN_ATTR_OPERATION_GENSTATS_XDESC, x},
                {CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, f->Float(kChannels)},
                {CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, f->Float(kChannels)}},
               [](CudnnDescriptor* made) {
                 const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
                 made->SetArray(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1,
                                &mode);
                 made->Set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, CUDNN_DATA_FLOAT);
               });
}

// relu(scale * x + bias)
size_t Normalized(Fusion* f) {
  const size_t scaled = f->Binary(CUDNN_POINTWISE_MUL, f->Blob(kX), f->Half(kChannels), kX);
  const size_t shifted = f->Binary(CUDNN_POINTWISE_ADD, scaled, f->Half(kChannels), kX);
  const size_t y = f->BetweenHalf(kX);
  f->Pointwise(CUDNN_POINTWISE_RELU_FWD, {{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, shifted},
                                          {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}});
  return y;
}

bool TakesStatistics(cudnnDataType_t half) {
  Fusion f(half);
  Statistics(&f, Forward(&f, f.Blob(kX)));
  return f.HasPlan();
}

bool TakesNormalizedWithStatistics(cudnnDataType_t half) {
  Fusion f(half);
  Statistics(&f, Forward(&f, Normalized(&f)));
  return f.HasPlan();
}

bool TakesNormalizedToWeights(cudnnDataType_t half) {
  Fusion f(half);
  const size_t x = Normalized(&f);
  f.Convolve(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
             {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x},
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, f.Blob(kX)},
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, f.Blob(kW)}});
  return f.HasPlan();
}

// dx of a convolution, through the ReLU and into the sums of the BatchNorm in front of it.
bool TakesToInputWithSums(cudnnDataType_t half) {
  Fusion f(half);
  const size_t d = f.Between(kX), x = f.Blob(kX), dx = f.Blob(kX);
  f.Convolve(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
             CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
             {{CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, f.Blob(kX)},
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, f.Blob(kW)},
              {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, d}});
  const size_t mean = f.Float(kChannels), inverse = f.Float(kChannels), scale = f.Float(kChannels);
  size_t y = f.Binary(CUDNN_POINTWISE_SUB, x, mean, kX);
  y = f.Binary(CUDNN_POINTWISE_MUL, y, inverse, kX);
  y = f.Binary(CUDNN_POINTWISE_MUL, y, scale, kX);
  y = f.Binary(CUDNN_POINTWISE_ADD, y, f.Float(kChannels), kX);
  f.Pointwise(CUDNN_POINTWISE_RELU_BWD, {{CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, d},
                                         {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, y},
                                         {CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx}});
  f.Operation(CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR,
              {{CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, mean},
               {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, inverse},
               {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, scale},
               {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, x},
               {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, dx},
               {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, f.Float(kChannels)},
               {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, f.Float(kChannels)},
               {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, f.Float(kChannels)},
               {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, f.Float(kChannels)},
               {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, f.Float(kChannels)}},
              [](CudnnDescriptor* made) {
                made->Set(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, CUDNN_DATA_FLOAT);
              });
  return f.HasPlan();
}

using RealFusions = RealCudnnTest;

TEST_F(RealFusions, AreReadyForHalves) {
  for (const std::string_view gpu : {kHopper, kAmpere}) {
    AskAbout(gpu);
    EXPECT_TRUE(TakesStatistics(CUDNN_DATA_HALF)) << gpu;
    EXPECT_TRUE(TakesNormalizedWithStatistics(CUDNN_DATA_HALF)) << gpu;
    EXPECT_TRUE(TakesNormalizedToWeights(CUDNN_DATA_HALF)) << gpu;
    EXPECT_TRUE(TakesToInputWithSums(CUDNN_DATA_HALF)) << gpu;
  }
}

// Also where it can compile engines. Once it has them, this is worth another look.
TEST_F(RealFusions, OfBackwardPassesAreMissingForBFloat16) {
  if (TheLibrary().library.version() / 100 != 919) GTEST_SKIP() << "another cuDNN may have them";
  for (const std::string_view gpu : {kHopper, kAmpere}) {
    AskAbout(gpu);
    EXPECT_FALSE(TakesNormalizedToWeights(CUDNN_DATA_BFLOAT16)) << gpu;
    EXPECT_FALSE(TakesToInputWithSums(CUDNN_DATA_BFLOAT16)) << gpu;
  }
}

}  // namespace
}  // namespace crema::test
