// Pooling: one value for each window of each plane: the first largest (MAX), the mean (AVE, which
// counts padding but not what lies beyond it), or one drawn in proportion to the values
// (STOCHASTIC, in TRAIN; in TEST the mean weighted by the values themselves).
// MAX and STOCHASTIC send a gradient to the cell that was taken, AVE to all cells of the window.
// A window may be empty, or hold NaN only: MAX then gives -FLT_MAX, from nowhere (position -1).
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "layers/pooling/pool_geometry.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrainCells = 1 << 14;  // input cells that pay for a thread

class Pooling final : public Layer {
 public:
  explicit Pooling(const LayerParameter& param)
      : Layer(param),
        method_(param.pooling_param().pool()),
        exclude_pad_(!param.pooling_param().avg_include_pad()) {
    ValidatePoolParam(*this);
  }

  LayerInfo Infer(const InferContext& context) const override;
  void Forward(const ForwardArgs& args) const override;
  void Backward(const BackwardArgs& args) const override;
  size_t ForwardScratch(const InferContext& context, const LayerInfo& info, int) const override;

 private:
  // MAX, and STOCHASTIC in TRAIN: the output is one cell of the window.
  bool TakesOneCell(Phase phase) const {
    return method_ == PoolingParameter::MAX ||
           (method_ == PoolingParameter::STOCHASTIC && phase == TRAIN);
  }
  void CheckAverageWindows(const PoolWindow& window, const Shape& input) const;
  template <typename T, typename Index>
  void ForwardOneCell(const ForwardArgs& args, const PoolWindow& window, Index* index) const;

  const PoolingParameter::PoolMethod method_;
  const bool exclude_pad_;
};

// One type of index for all windows of a layer, as small as can be.
bool SmallWindow(const PoolWindow& window) {
  return window.h.kernel * window.w.kernel <= kMaxSmallWindow;
}
DType IndexType(const PoolWindow& window) { return SmallWindow(window) ? DType::kU8 : DType::kI32; }
int64_t Planes(const Shape& shape) { return shape.count(0, 2); }

// Calls body(first, last) on pieces of the planes.
template <typename Body>
void ParallelPlanes(const ExecContext& context, const PoolWindow& w, int64_t planes, Body&& body) {
  const int64_t cells = std::max(w.InSize(), w.OutSize());
  ParallelFor(context.threads(), planes, std::max<int64_t>(1, kGrainCells / cells),
              [&](int64_t begin, int64_t end, int) { body(begin, end); });
}

// A mean of no cells at all has no value.
void Pooling::CheckAverageWindows(const PoolWindow& window, const Shape& input) const {
  for (const PoolAxis* axis : {&window.h, &window.w}) {
    const int64_t last = axis->out - 1;
    if (axis->Padded(last) > 0 && axis->End(last) > axis->Begin(last)) continue;
    FailField(*this, "pooling_param.stride",
              StrCat("the last window starts at ", axis->Start(last), ", past the end (", axis->in,
                     ") of the input of shape ", ToString(input),
                     ", and a mean of nothing has no value; use a stride that is not larger than "
                     "the kernel, or round_mode: FLOOR"));
  }
}

LayerInfo Pooling::Infer(const InferContext& context) const {
  const Shape& input = context.inputs[0].shape;
  const PoolWindow window = MakePoolWindow(*this, input);
  if (method_ == PoolingParameter::AVE) CheckAverageWindows(window, input);
  if (context.output_count > 1 && method_ != PoolingParameter::MAX) {
    Fail(ErrorCode::kInvalidArgument,
         "a second top, the positions of the maxima, exists for MAX pooling only",
         {.layer = param().name(), .field = "top"});
  }
  const Shape output{input[0], input[1], window.h.out, window.w.out};
  LayerInfo info;
  info.outputs.assign(std::max<size_t>(1, context.output_count),
                      BlobSpec{output, context.inputs[0].dtype});
  if (TakesOneCell(context.phase)) info.saved = {{output, IndexType(window)}};
  info.backward_reads_input = {method_ == PoolingParameter::STOCHASTIC && context.phase != TRAIN};
  return info;
}

// Positions are worked out from indices, which are not saved when no backward pass will follow.
size_t Pooling::ForwardScratch(const InferContext& context, const LayerInfo& info, int) const {
  if (info.outputs.size() < 2) return 0;
  const PoolWindow window = MakePoolWindow(*this, context.inputs[0].shape);
  const int64_t count = info.outputs[0].shape.count();
  return kScratchSlack +
         (SmallWindow(window) ? ScratchBytes<uint8_t>(count) : ScratchBytes<int32_t>(count));
}

template <typename T, typename Index>
void Pooling::ForwardOneCell(const ForwardArgs& args, const PoolWindow& w, Index* index) const {
  const T* x = args.inputs[0].data<T>();
  T* y = args.outputs[0].data<T>();
  T* position =
      args.outputs.size() > 1 && !args.outputs[1].empty() ? args.outputs[1].data<T>() : nullptr;
  if (position != nullptr && index == nullptr) {
    index = ScratchCutter(args.scratch).Take<Index>(args.outputs[0].count());
  }
  const RandomStream random(args.context.seed(), args.layer_id, args.context.step());
  ParallelPlanes(args.context, w, Planes(args.inputs[0].shape()), [&](int64_t begin, int64_t end) {
    const int64_t first = begin * w.OutSize();
    const T* planes = x + begin * w.InSize();
    Index* place = index == nullptr ? nullptr : index + first;
    if (method_ == PoolingParameter::MAX) {
      MaxPool(w, end - begin, planes, y + first, place);
      if (position != nullptr) MaxPoolPositions<T, Index>(w, end - begin, place, position + first);
    } else {
      StochasticPool(w, end - begin, random, first, planes, y + first, place);
    }
  });
}

void Pooling::Forward(const ForwardArgs& args) const {
  const PoolWindow w = MakePoolWindow(*this, args.inputs[0].shape());
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    if (TakesOneCell(args.phase)) {
      const bool save = !args.saved.empty() && !args.saved[0].empty();
      if (SmallWindow(w)) {
        ForwardOneCell<T>(args, w, save ? args.saved[0].data<uint8_t>() : nullptr);
      } else {
        ForwardOneCell<T>(args, w, save ? args.saved[0].data<int32_t>() : nullptr);
      }
      return;
    }
    const T* x = args.inputs[0].data<T>();
    T* y = args.outputs[0].data<T>();
    ParallelPlanes(args.context, w, Planes(args.inputs[0].shape()), [&](int64_t b, int64_t e) {
      if (method_ == PoolingParameter::AVE) {
        AveragePool(w, exclude_pad_, e - b, x + b * w.InSize(), y + b * w.OutSize());
      } else {
        WeightedPool(w, e - b, x + b * w.InSize(), y + b * w.OutSize());
      }
    });
  });
}

void Pooling::Backward(const BackwardArgs& args) const {
  if (args.input_grads[0].empty()) return;
  const Shape& shape = args.input_grads[0].shape();
  const PoolWindow w = MakePoolWindow(*this, shape);
  DispatchFloat(args.input_grads[0].dtype(), [&]<typename T>(T) {
    const T* dys = args.output_grads[0].data<T>();
    T* dxs = args.input_grads[0].data<T>();
    ParallelPlanes(args.context, w, Planes(shape), [&](int64_t begin, int64_t end) {
      const int64_t first = begin * w.OutSize();
      const T* dy = dys + first;
      T* dx = dxs + begin * w.InSize();
      if (method_ == PoolingParameter::AVE) {
        AveragePoolBackward(w, exclude_pad_, end - begin, dy, dx);
      } else if (!TakesOneCell(args.phase)) {
        const T* x = args.inputs[0].data<T>() + begin * w.InSize();
        WeightedPoolBackward(w, end - begin, x, dy, dx);
      } else if (SmallWindow(w)) {
        MaxPoolBackward(w, end - begin, args.saved[0].data<uint8_t>() + first, dy, dx);
      } else {
        MaxPoolBackward(w, end - begin, args.saved[0].data<int32_t>() + first, dy, dx);
      }
    });
  });
}

LayerSample Sample(std::string name, const std::string& fields, std::vector<int64_t> shape) {
  LayerSample sample;
  sample.name = std::move(name);
  sample.prototxt = "pooling_param { " + fields + " }";
  SampleInput input{.shape = std::move(shape), .distinct = true};
  sample.inputs = {input};
  return sample;
}

std::vector<LayerSample> Samples() {
  std::vector<LayerSample> samples = {
      Sample("max_2x2", "kernel_size: 2 stride: 2", {2, 3, 4, 6}),
      Sample("max_2x2_odd", "kernel_size: 2 stride: 2 round_mode: FLOOR", {1, 2, 5, 7}),
      Sample("max_overlap_ceil", "kernel_size: 3 stride: 2", {2, 2, 6, 8}),
      Sample("max_pad_clip", "kernel_size: 3 stride: 2 pad: 1", {1, 2, 6, 5}),
      Sample("max_two_axes_apart",
             "kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 3 pad_h: 2 pad_w: 0", {1, 2, 5, 7}),
      Sample("max_global", "global_pooling: true", {2, 2, 3, 5}),
      Sample("max_large_window", "kernel_size: 17 stride: 1 pad: 8", {1, 1, 6, 5}),
      Sample("max_empty_window", "kernel_size: 1 stride: 2", {1, 2, 4, 4}),
      Sample("average", "pool: AVE kernel_size: 2", {2, 3, 4, 5}),
      Sample("average_ceil", "pool: AVE kernel_size: 3 stride: 2", {2, 2, 6, 8}),
      Sample("average_pad", "pool: AVE kernel_size: 3 stride: 2 pad: 1", {1, 2, 6, 5}),
      Sample("average_without_pad",
             "pool: AVE kernel_size: 3 stride: 2 pad: 1 avg_include_pad: false", {1, 2, 6, 5}),
      Sample("average_global", "pool: AVE global_pooling: true", {2, 3, 4, 5}),
      Sample("stochastic_train", "pool: STOCHASTIC kernel_size: 2 stride: 2", {2, 2, 4, 5}),
      Sample("stochastic_test", "pool: STOCHASTIC kernel_size: 3 stride: 2", {1, 2, 5, 6}),
      Sample("positions", "kernel_size: 3 stride: 2", {1, 2, 5, 6}),
      Sample("empty_batch", "kernel_size: 2", {0, 2, 4, 4}),
  };
  for (LayerSample& sample : samples) {
    if (sample.name.starts_with("stochastic")) sample.inputs[0].low = 0.1;
    if (sample.name == "stochastic_test") sample.phase = TEST;
    if (sample.name == "positions") sample.outputs = 2;
  }
  return samples;
}

std::vector<BadSample> BadSamples() {
  const auto bad = [](const char* fields, const char* expect, int outputs = 1,
                      std::vector<int64_t> shape = {1, 2, 4, 4}) {
    return BadSample{
        std::string("pooling_param { ") + fields + " }", {std::move(shape)}, expect, outputs};
  };
  return {
      bad("", "kernel_size is missing"),
      bad("kernel_size: 0", "above 0"),
      bad("kernel_h: 2", "must both be given"),
      bad("kernel_size: 2 kernel_h: 2 kernel_w: 2", "not both"),
      bad("kernel_size: 2 stride: 0", "stride must be above 0"),
      bad("kernel_size: 2 stride_h: 2", "must both be given"),
      bad("kernel_size: 2 pad: 1 pad_h: 1 pad_w: 1", "not both"),
      bad("kernel_size: 2 pad: 2", "smaller than the kernel"),
      bad("global_pooling: true kernel_size: 2", "whole plane"),
      bad("global_pooling: true pad: 1", "pad must be 0"),
      bad("global_pooling: true stride: 2", "stride must be 1"),
      bad("pool: STOCHASTIC kernel_size: 2 pad: 1", "pad must be 0"),
      bad("pool: AVE kernel_size: 2", "MAX pooling only", 2),
      bad("pool: AVE kernel_size: 1 stride: 2", "a mean of nothing"),
      bad("kernel_size: 9", "does not fit"),
      bad("kernel_size: 2", "4 axes", 1, {2, 4, 4}),
  };
}

}  // namespace

void RegisterPooling(Registry& registry) {
  LayerType type;
  type.name = "Pooling";
  type.category = "pooling";
  type.summary = "One value for each window of each plane: the largest, the mean, or a drawn one.";
  type.formula =
      "y[n, c, p] = max or mean of x[n, c, p * stride - pad + 0..kernel-1]; size = ceil((in + 2 "
      "pad - kernel) / stride) + 1";
  type.param_fields = {"pooling_param"};
  type.unread_fields = {"pooling_param.axis", "pooling_param.pad_3d",
                        "pooling_param.kernel_size_3d", "pooling_param.stride_3d",
                        "pooling_param.torch_pooling"};
  type.outputs = {1, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Pooling>(p); };
  type.samples = Samples();
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
