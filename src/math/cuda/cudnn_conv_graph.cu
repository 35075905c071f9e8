#include <utility>

#include "core/error.h"
#include "math/cuda/cudnn_conv_graph.h"

namespace crema {
namespace {

using Sizes = std::vector<int64_t>;

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
      const size_t x = Add(kCudnnX, x_), dy = Add(kCudnnY, y_);
      graph_->AddBackwardFilter(window_, x, dy, Add(kCudnnW, w_));
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
    const size_t from = to_input ? Add(kCudnnY, y_) : Add(kCudnnX, x_);
    const size_t w = Add(kCudnnW, w_);
    const size_t sums = spec_.fused() ? AddVirtual(result) : Add(id, result);
    if (to_input) graph_->AddBackwardData(window_, from, w, sums);
    if (!to_input) graph_->AddConvolution(window_, from, w, sums);
    AddEpilogue(sums, id, result);
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
  size_t AddVirtual(const Sizes& sizes) {
    return graph_->AddTensor({.id = next_virtual_++,
                              .type = CUDNN_DATA_FLOAT,
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
  if (spec.sum) all.push_back({kCudnnSum, memory.sum});
  if (spec.bias) all.push_back({kCudnnBias, memory.bias});
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
