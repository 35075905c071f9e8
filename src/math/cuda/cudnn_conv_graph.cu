#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "math/cuda/cudnn_conv_graph.h"

namespace crema {
namespace {

using Sizes = std::vector<int64_t>;

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

// Returns the strides of the axes: batch, channels, spatial axes.
Sizes StridesOf(const Sizes& sizes, bool channels_last) {
  Sizes strides(sizes.size());
  int64_t step = 1;
  if (channels_last) {
    strides[1] = step;
    step *= sizes[1];
  }
  for (size_t i = sizes.size(); i-- > 0;) {
    if (i == 1 && channels_last) continue;
    strides[i] = step;
    step *= sizes[i];
  }
  return strides;
}

cudnnDataType_t TypeOf(DType dtype) {
  if (dtype == DType::kBF16) return CUDNN_DATA_BFLOAT16;
  if (dtype == DType::kF16) return CUDNN_DATA_HALF;
  CREMA_CHECK(dtype == DType::kF32);
  return CUDNN_DATA_FLOAT;
}

class Builder {
 public:
  explicit Builder(const CudnnConvSpec& spec)
      : spec_(spec), graph_(std::make_shared<CudnnGraph>()) {
    x_ = {spec.batch, spec.in_channels};
    w_ = {spec.out_channels, spec.in_channels / spec.groups};
    y_ = {spec.batch, spec.out_channels};
    for (const CudnnConvSpec::Axis& axis : spec.axes) {
      x_.push_back(axis.in);
      w_.push_back(axis.kernel);
      y_.push_back(axis.out);
      window_.pad.push_back(axis.pad);
      window_.stride.push_back(axis.stride);
      window_.dilation.push_back(axis.dilation);
    }
  }

  std::shared_ptr<const CudnnGraph> Build(cudnnHandle_t handle) {
    if (spec_.pass == ConvPass::kToWeights) {
      const size_t x = Input(), dy = Add(kCudnnY, y_);
      graph_->AddBackwardFilter(window_, x, dy, Add(kCudnnW, w_));
    } else if (spec_.norm_gradient) {
      BuildNormGradient();
    } else {
      BuildResult();
    }
    graph_->Finalize(handle);
    return graph_;
  }

 private:
  void BuildResult() {
    const bool to_input = spec_.pass == ConvPass::kToInput;
    const Sizes& result = to_input ? x_ : y_;
    const int64_t id = to_input ? kCudnnX : kCudnnY;
    const size_t from = to_input ? Add(kCudnnY, y_) : Input();
    const size_t w = Add(kCudnnW, w_);
    const size_t sums = spec_.fused() ? AddVirtual(result) : Add(id, result);
    if (to_input) graph_->AddBackwardData(window_, from, w, sums);
    if (!to_input) graph_->AddConvolution(window_, from, w, sums);
    AddEpilogue(sums, id, result);
    if (spec_.statistics) {
      graph_->AddStatistics(sums, AddSums(kCudnnSumOfY, result[1]),
                            AddSums(kCudnnSumOfSquares, result[1]));
    }
  }

  // x of kForward and kToWeights.
  size_t Input() {
    const size_t x = Add(kCudnnX, x_);
    if (!spec_.normalized) return x;
    const Sizes channels = OfChannels(x_[1]);
    const size_t scaled = Pointwise(CUDNN_POINTWISE_MUL, x, Add(kCudnnScale, channels));
    const size_t shifted = Pointwise(CUDNN_POINTWISE_ADD, scaled, Add(kCudnnShift, channels));
    // The input of a convolution must have the type of its filters.
    const size_t y = AddVirtual(x_, TypeOf(spec_.dtype));
    graph_->AddPointwise({.mode = CUDNN_POINTWISE_RELU_FWD}, shifted, nullptr, y);
    return y;
  }

  // dx through the ReLU, and the sums of the normalisation.
  void BuildNormGradient() {
    const int64_t channels = x_[1];
    const size_t dy = Add(kCudnnY, y_), w = Add(kCudnnW, w_);
    const size_t all = AddVirtual(x_), dx = Add(kCudnnX, x_), x = Add(kCudnnNormX, x_);
    graph_->AddBackwardData(window_, dy, w, all);
    const size_t mean = AddSums(kCudnnMean, channels), inverse = AddSums(kCudnnInverse, channels);
    const size_t scale = AddSums(kCudnnNormScale, channels);
    const size_t shift = AddSums(kCudnnNormShift, channels);
    // Precompiled engines support only this order, with a mean that is subtracted.
    size_t y = Pointwise(CUDNN_POINTWISE_SUB, x, mean);
    y = Pointwise(CUDNN_POINTWISE_MUL, y, inverse);
    y = Pointwise(CUDNN_POINTWISE_MUL, y, scale);
    y = Pointwise(CUDNN_POINTWISE_ADD, y, shift);
    graph_->AddReluBackward(all, y, dx);
    graph_->AddNormGradient({.x = x,
                             .dy = dx,
                             .mean = mean,
                             .inverse = inverse,
                             .scale = scale,
                             .dscale = AddSums(kCudnnDscale, channels),
                             .dshift = AddSums(kCudnnDshift, channels),
                             .dy_factor = AddSums(kCudnnEquivalents, channels),
                             .x_factor = AddSums(kCudnnEquivalents + 1, channels),
                             .summand = AddSums(kCudnnEquivalents + 2, channels)});
  }

  // Sum, bias, ReLU: the order that cuDNN's precompiled engines support.
  void AddEpilogue(size_t sums, int64_t id, const Sizes& result) {
    const auto next = [&](bool last) { return last ? Add(id, result) : AddVirtual(result); };
    if (spec_.sum) {
      const size_t added = Add(kCudnnSum, result);
      const size_t y = next(!spec_.bias && !spec_.relu);
      graph_->AddPointwise({}, std::exchange(sums, y), &added, y);
    }
    if (spec_.bias) {
      const size_t bias = Add(kCudnnBias, OfChannels(result[1]));
      const size_t y = next(!spec_.relu);
      graph_->AddPointwise({}, std::exchange(sums, y), &bias, y);
    }
    if (spec_.relu) {
      const CudnnPointwise relu{.mode = CUDNN_POINTWISE_RELU_FWD, .slope = *spec_.relu};
      graph_->AddPointwise(relu, sums, nullptr, next(true));
    }
  }

  // Applies an operation to a tensor like x and one value for each channel.
  size_t Pointwise(cudnnPointwiseMode_t mode, size_t x, size_t by_channel) {
    const size_t y = AddVirtual(x_);
    graph_->AddPointwise({.mode = mode}, x, &by_channel, y);
    return y;
  }

  Sizes OfChannels(int64_t channels) const {
    Sizes sizes(x_.size(), 1);
    sizes[1] = channels;
    return sizes;
  }

  size_t Add(int64_t id, const Sizes& sizes) {
    return graph_->AddTensor({.id = id,
                              .type = TypeOf(spec_.dtype),
                              .sizes = sizes,
                              .strides = StridesOf(sizes, spec_.channels_last),
                              .alignment = spec_.alignment});
  }
  // f32, one for each channel.
  size_t AddSums(int64_t id, int64_t channels) {
    const Sizes sizes = OfChannels(channels);
    int64_t alignment = std::max(spec_.alignment, kFloat);
    // The second and third output follow the first in memory.
    if (id > kCudnnEquivalents) alignment = std::gcd(alignment, kFloat * channels);
    return graph_->AddTensor({.id = id,
                              .type = CUDNN_DATA_FLOAT,
                              .sizes = sizes,
                              .strides = StridesOf(sizes, spec_.channels_last),
                              .alignment = alignment});
  }
  size_t AddVirtual(const Sizes& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return graph_->AddTensor({.id = next_virtual_++,
                              .type = type,
                              .sizes = sizes,
                              .strides = StridesOf(sizes, spec_.channels_last),
                              .is_virtual = true});
  }

  const CudnnConvSpec& spec_;
  std::shared_ptr<CudnnGraph> graph_;
  Sizes x_, w_, y_;
  CudnnWindow window_;
  int64_t next_virtual_ = kCudnnVirtual;
};

// The memory of the tensor with an id.
struct Named {
  int64_t id;
  const void* data;
};

std::vector<Named> AllMemory(const CudnnConvSpec& spec, const CudnnConvMemory& memory) {
  std::vector<Named> all{{kCudnnX, memory.x}, {kCudnnW, memory.w}, {kCudnnY, memory.y}};
  const auto add = [&](std::initializer_list<Named> more) { all.insert(all.end(), more); };
  if (spec.sum) add({{kCudnnSum, memory.sum}});
  if (spec.bias) add({{kCudnnBias, memory.bias}});
  if (spec.normalized) add({{kCudnnScale, memory.scale}, {kCudnnShift, memory.shift}});
  if (spec.statistics) {
    add({{kCudnnSumOfY, memory.sum_of_y}, {kCudnnSumOfSquares, memory.sum_of_squares}});
  }
  if (!spec.norm_gradient) return all;
  const CudnnConvMemory::Norm& norm = memory.norm;
  add({{kCudnnNormX, norm.x},
       {kCudnnMean, norm.mean},
       {kCudnnInverse, norm.inverse},
       {kCudnnNormScale, norm.scale},
       {kCudnnNormShift, norm.shift},
       {kCudnnDscale, norm.dscale},
       {kCudnnDshift, norm.dshift}});
  for (int64_t i = 0; i < 3; ++i) {
    const bool there = norm.equivalents != nullptr;
    add({{kCudnnEquivalents + i, there ? norm.equivalents + i * spec.in_channels : nullptr}});
  }
  return all;
}

bool MayUseEngine(const CudnnEngine& engine, const CudnnConvSpec& spec) {
  if (engine.Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  if (engine.Has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return false;
  if (spec.dtype != DType::kF32) return true;
  // Tensor cores multiply f32 as TF32; inputs that are converted down become half precision.
  if (engine.Has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
  return spec.tf32 || !engine.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

}  // namespace

std::vector<int64_t> CudnnConvIds(const CudnnConvSpec& spec) {
  std::vector<int64_t> ids;
  for (const Named& named : AllMemory(spec, {})) ids.push_back(named.id);
  return ids;
}

std::vector<void*> CudnnConvData(const CudnnConvSpec& spec, const CudnnConvMemory& memory) {
  std::vector<void*> data;
  // Variant packs of cuDNN do not distinguish inputs from outputs.
  for (const Named& named : AllMemory(spec, memory)) data.push_back(const_cast<void*>(named.data));
  return data;
}

std::shared_ptr<const CudnnGraph> MakeCudnnConvGraph(cudnnHandle_t handle,
                                                     const CudnnConvSpec& spec) {
  CREMA_CHECK(spec.pass != ConvPass::kToWeights || !spec.fused());
  CREMA_CHECK(spec.pass != ConvPass::kToInput || !spec.normalized);
  CREMA_CHECK(!spec.statistics || (spec.pass == ConvPass::kForward && !spec.fused()));
  CREMA_CHECK(!spec.norm_gradient || (spec.pass == ConvPass::kToInput && !spec.fused()));
  return Builder(spec).Build(handle);
}

std::vector<CudnnEngine> CudnnConvEngines(const CudnnGraph& graph, const CudnnConvSpec& spec,
                                          bool fallback, std::string* words) {
  constexpr size_t kMost = 12;  // examined; heuristics sometimes return dozens
  std::vector<CudnnEngine> engines;
  for (CudnnEngine& engine : CudnnEngines(graph, fallback, words)) {
    if (engines.size() == kMost) break;
    if (MayUseEngine(engine, spec)) engines.push_back(std::move(engine));
  }
  return engines;
}

}  // namespace crema
