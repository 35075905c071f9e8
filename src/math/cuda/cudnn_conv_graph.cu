#include <algorithm>
#include <utility>

#include "core/error.h"
#include "math/cuda/cudnn_conv_graph.h"

namespace crema {
namespace {

using Extents = std::vector<int64_t>;

// Elements from one to the next along each axis: batch, channels, space.
Extents StridesOf(const Extents& extents, bool channels_last) {
  Extents strides(extents.size());
  int64_t step = 1;
  if (channels_last) {
    strides[1] = step;
    step *= extents[1];
  }
  for (size_t i = extents.size(); i-- > 0;) {
    if (i == 1 && channels_last) continue;
    strides[i] = step;
    step *= extents[i];
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
    const bool to_input = spec_.pass == ConvPass::kToInput;
    const Extents& result = to_input ? x_ : y_;
    const int64_t id = to_input ? kCudnnX : kCudnnY;
    if (spec_.pass == ConvPass::kToWeights) {
      const size_t x = Add(kCudnnX, x_), dy = Add(kCudnnY, y_);
      graph_->AddBackwardFilter(window_, x, dy, Add(kCudnnW, w_));
    } else {
      const size_t from = to_input ? Add(kCudnnY, y_) : Add(kCudnnX, x_);
      const size_t w = Add(kCudnnW, w_);
      const size_t sums = spec_.fused() ? AddVirtual(result) : Add(id, result);
      if (to_input) graph_->AddBackwardData(window_, from, w, sums);
      if (!to_input) graph_->AddConvolution(window_, from, w, sums);
      AddEpilogue(sums, id, result);
    }
    graph_->Finalize(handle);
    return graph_;
  }

 private:
  // Sum, bias, ReLU: the order of the engines that cuDNN has ready for it.
  void AddEpilogue(size_t sums, int64_t id, const Extents& result) {
    const auto next = [&](bool last) { return last ? Add(id, result) : AddVirtual(result); };
    if (spec_.sum) {
      const size_t added = Add(kCudnnSum, result);
      const size_t y = next(!spec_.bias && !spec_.relu);
      graph_->AddPointwise({}, std::exchange(sums, y), &added, y);
    }
    if (spec_.bias) {
      Extents channels(result.size(), 1);
      channels[1] = result[1];
      const size_t bias = Add(kCudnnBias, channels);
      const size_t y = next(!spec_.relu);
      graph_->AddPointwise({}, std::exchange(sums, y), &bias, y);
    }
    if (spec_.relu) {
      const CudnnPointwise relu{.mode = CUDNN_POINTWISE_RELU_FWD, .slope = *spec_.relu};
      graph_->AddPointwise(relu, sums, nullptr, next(true));
    }
  }

  size_t Add(int64_t id, const Extents& extents) {
    return graph_->AddTensor({.id = id,
                              .type = TypeOf(spec_.dtype),
                              .extents = extents,
                              .strides = StridesOf(extents, spec_.channels_last),
                              .alignment = spec_.alignment});
  }
  size_t AddVirtual(const Extents& extents) {
    return graph_->AddTensor({.id = next_virtual_++,
                              .type = CUDNN_DATA_FLOAT,
                              .extents = extents,
                              .strides = StridesOf(extents, spec_.channels_last),
                              .is_virtual = true});
  }

  const CudnnConvSpec& spec_;
  std::shared_ptr<CudnnGraph> graph_;
  Extents x_, w_, y_;
  CudnnWindow window_;
  int64_t next_virtual_ = kCudnnVirtual;
};

bool MayUseEngine(const CudnnEngine& engine, const CudnnConvSpec& spec) {
  if (engine.Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  if (engine.Has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return false;
  if (spec.dtype != DType::kF32) return true;
  // Tensor cores multiply f32 as TF32; inputs that are converted down become halves.
  if (engine.Has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
  return spec.tf32 || !engine.Has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

}  // namespace

std::vector<int64_t> CudnnConvIds(const CudnnConvSpec& spec) {
  std::vector<int64_t> ids{kCudnnX, kCudnnW, kCudnnY};
  if (spec.sum) ids.push_back(kCudnnSum);
  if (spec.bias) ids.push_back(kCudnnBias);
  return ids;
}

std::vector<void*> CudnnConvData(const CudnnConvSpec& spec, const CudnnConvMemory& memory) {
  // Packs of cuDNN have what is only read among what is written.
  const auto plain = [](const void* pointer) { return const_cast<void*>(pointer); };
  std::vector<void*> data{plain(memory.x), plain(memory.w), plain(memory.y)};
  if (spec.sum) data.push_back(plain(memory.sum));
  if (spec.bias) data.push_back(plain(memory.bias));
  return data;
}

std::shared_ptr<const CudnnGraph> MakeCudnnConvGraph(cudnnHandle_t handle,
                                                     const CudnnConvSpec& spec) {
  CREMA_CHECK(spec.pass != ConvPass::kToWeights || !spec.fused());
  return Builder(spec).Build(handle);
}

std::vector<CudnnEngine> CudnnConvEngines(const CudnnGraph& graph, const CudnnConvSpec& spec,
                                          bool fallback) {
  constexpr size_t kMost = 12;  // to look at; heuristics give dozens at times
  std::vector<CudnnEngine> engines;
  for (CudnnEngine& engine : CudnnEngines(graph, fallback)) {
    if (engines.size() == kMost) break;
    if (MayUseEngine(engine, spec)) engines.push_back(std::move(engine));
  }
  return engines;
}

}  // namespace crema
