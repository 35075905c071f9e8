#include "layers/pooling/pooling.h"

#include <algorithm>
#include <vector>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrainCells = 1 << 14;  // minimum input cells per thread

// Calls body(begin, end) for ranges of planes, in parallel.
template <typename Body>
void ParallelPlanes(const ExecContext& context, const PoolPlanes& pool, int64_t planes,
                    Body&& body) {
  const int64_t cells = std::max(pool.in(), pool.out());
  ParallelFor(context.threads(), planes, std::max<int64_t>(1, kGrainCells / cells),
              [&](int64_t begin, int64_t end, int) { body(begin, end); });
}

}  // namespace

Pooling::Pooling(const LayerParameter& param, PoolSettings (*read)(const Layer&))
    : Layer(param), method_(param.pooling_param().pool()), settings_(read(*this)) {}

PoolPlanes Pooling::Planes(const PoolWindowNd& window, Phase phase) const {
  return PoolPlanes(window, PoolMethodOf(method_, phase), ExcludesPad());
}

Support Pooling::SupportsBlocks(const Shape& input) const {
  if (method_ == PoolingParameter::STOCHASTIC) return Support::No("is for MAX and AVE");
  if (FirstSpatial(input) != 2) return Support::No("is for channels on axis 1");
  // Larger windows have another kind of index (PoolPlanes), which depends on the input size if the
  // whole plane is one window.
  constexpr int64_t kMostCells = int64_t{1} << 30;
  const PoolWindow window = PlaneWindow(input);
  if (window.h.kernel > kMostCells / window.w.kernel) return Support::No("windows are too large");
  return {};
}

LayerInfo Pooling::Infer(const InferContext& context) const {
  const Shape& input = context.inputs[0].shape;
  const PoolWindowNd window = MakePoolWindow(*this, settings_, input);
  if (method_ == PoolingParameter::AVE) CheckAverageWindows(*this, window, input);
  if (context.output_count > 1 && method_ != PoolingParameter::MAX) {
    Fail(ErrorCode::kInvalidArgument,
         "a second top, the positions of the maxima, exists for MAX pooling only",
         {.layer = param().name(), .field = "top"});
  }
  std::vector<int64_t> dims(input.dims().begin(), input.dims().begin() + FirstSpatial(input));
  for (int a = 0; a < window.size; ++a) dims.push_back(window.axes[static_cast<size_t>(a)].out);
  const Shape output{std::span<const int64_t>(dims)};
  const PoolPlanes pool = Planes(window, context.phase);
  LayerInfo info;
  info.outputs.assign(std::max<size_t>(1, context.output_count),
                      BlobSpec{output, context.inputs[0].dtype});
  const bool draws = method_ == PoolingParameter::STOCHASTIC && context.phase == TRAIN;
  info.reach = draws ? Reach::kAll : ReachFromAxis(FirstSpatial(input));
  info.moves_only = pool.TakesOneCell() && info.outputs.size() == 1;
  if (pool.TakesOneCell()) info.saved = {{output, pool.IndexType()}};
  info.backward_reads_input = {method_ == PoolingParameter::STOCHASTIC && context.phase != TRAIN};
  return info;
}

// Positions are computed from indices, which are not saved without a backward pass.
size_t Pooling::ForwardScratch(const InferContext&, const LayerInfo& info, int) const {
  if (info.outputs.size() < 2) return 0;
  return ScratchBytes<int32_t>(info.outputs[0].shape.count()) + kScratchSlack;
}

void Pooling::Forward(const ForwardArgs& args) const {
  const Shape& shape = args.inputs[0].shape();
  const PoolPlanes pool = Planes(shape, args.phase);
  const bool positions = args.outputs.size() > 1 && !args.outputs[1].empty();
  void* index = args.saved.empty() ? nullptr : args.saved[0].raw();
  if (positions && index == nullptr) {
    index = ScratchCutter(args.scratch).Take<int32_t>(args.outputs[0].count());
  }
  const RandomStream random(args.context.seed(), args.layer_id, args.context.step());
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const T* x = args.inputs[0].data<T>();
    T* y = args.outputs[0].data<T>();
    const int64_t planes = shape.count(0, FirstSpatial(shape));
    ParallelPlanes(args.context, pool, planes, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * pool.out();
      void* place = pool.IndexAt(index, first);
      pool.Forward(end - begin, x + begin * pool.in(), y + first, place, random, first);
      if (positions) pool.Positions(end - begin, place, args.outputs[1].data<T>() + first);
    });
  });
}

void Pooling::Backward(const BackwardArgs& args) const {
  if (args.input_grads[0].empty()) return;
  const Shape& shape = args.input_grads[0].shape();
  const PoolPlanes pool = Planes(shape, args.phase);
  const void* index = pool.TakesOneCell() ? args.saved[0].raw() : nullptr;
  const bool reads_input = !args.inputs[0].empty();
  DispatchFloat(args.input_grads[0].dtype(), [&]<typename T>(T) {
    const T* x = reads_input ? args.inputs[0].data<T>() : nullptr;
    const T* dy = args.output_grads[0].data<T>();
    T* dx = args.input_grads[0].data<T>();
    const int64_t planes = shape.count(0, FirstSpatial(shape));
    ParallelPlanes(args.context, pool, planes, [&](int64_t begin, int64_t end) {
      const int64_t first = begin * pool.out();
      pool.Backward(end - begin, reads_input ? x + begin * pool.in() : nullptr, dy + first,
                    dx + begin * pool.in(), pool.IndexAt(index, first));
    });
  });
}

}  // namespace crema
