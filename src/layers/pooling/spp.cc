// SPP (spatial pyramid pooling): level i pools into 2^i bins per side. The bins of all levels are
// concatenated, so that planes of any size give the same number of values.
// With B bins over a size H: kernel = stride = ceil(H / B), pad = (kernel B - H + 1) / 2.
#include <string>
#include <utility>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/pooling/spp_levels.h"
#include "math/scratch.h"

namespace crema {
namespace {

class SPP final : public Layer {
 public:
  explicit SPP(const LayerParameter& param) : Layer(param) {
    const SPPParameter& p = param.spp_param();
    if (p.pyramid_height() < 1 || p.pyramid_height() > kMostSppLevels) {
      FailField(*this, "spp_param.pyramid_height",
                p.has_pyramid_height()
                    ? StrCat("pyramid_height must be 1 to ", kMostSppLevels, ", but it is ",
                             p.pyramid_height())
                    : std::string("pyramid_height, the number of levels, is missing"));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    if (shape.axes() != 4) {
      FailInputs(*this, StrCat("SPP works on inputs of 4 axes (batch, channels, height, width), ",
                               "but the input is ", ToString(shape)));
    }
    LayerInfo info;
    const SppLevels levels = MakeSppLevels(*this, shape, context.phase);
    for (size_t i = 0; i < levels.size(); ++i) {
      const PoolPlanes& pool = levels[i].pool;
      if (!pool.TakesOneCell()) continue;
      info.moves_only = true;
      info.saved.push_back({Shape{shape[0], shape[1], pool.out()}, pool.IndexType()});
    }
    const bool one = param().spp_param().pyramid_height() == 1;
    info.outputs = {{one ? Shape{shape[0], shape[1], 1, 1} : Shape{shape[0], levels.values()},
                     context.inputs[0].dtype}};
    const bool stochastic = param().spp_param().pool() == SPPParameter::STOCHASTIC;
    info.reach = stochastic && context.phase == TRAIN ? Reach::kAll : Reach::kSample;
    info.backward_reads_input = {stochastic && context.phase != TRAIN};
    return info;
  }

  // Holds the gradients of one plane from one level, for each worker.
  size_t BackwardScratch(const InferContext& context, const LayerInfo&,
                         int threads) const override {
    const Shape& shape = context.inputs[0].shape;
    return ScratchBytes<double>(shape.count(2) * ParallelWorkers(threads, shape.count(0, 2), 1)) +
           kScratchSlack;
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& shape = args.inputs[0].shape();
    const SppLevels levels = MakeSppLevels(*this, shape, args.phase);
    const int64_t item = args.outputs[0].shape().count(1);
    const RandomStream random(args.context.seed(), args.layer_id, args.context.step());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ParallelFor(args.context.threads(), shape.count(0, 2), 1, [&](int64_t b, int64_t e, int) {
        for (int64_t p = b; p < e; ++p) {
          for (size_t i = 0; i < levels.size(); ++i) {
            const auto& [pool, first] = levels[i];
            const int64_t at = p / shape[1] * item + first + p % shape[1] * pool.out();
            void* index = i < args.saved.size() ? args.saved[i].raw() : nullptr;
            pool.Forward(1, x + p * pool.in(), y + at, pool.IndexAt(index, p * pool.out()), random,
                         at);
          }
        }
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    if (args.input_grads[0].empty()) return;
    const Shape& shape = args.input_grads[0].shape();
    const SppLevels levels = MakeSppLevels(*this, shape, args.phase);
    DispatchFloat(args.input_grads[0].dtype(), [&]<typename T>(T) {
      const int threads = args.context.threads();
      const int64_t cells = shape.count(2);
      T* parts = ScratchCutter(args.scratch)
                     .Take<T>(cells * ParallelWorkers(threads, shape.count(0, 2), 1));
      ParallelFor(threads, shape.count(0, 2), 1, [&](int64_t b, int64_t e, int worker) {
        for (int64_t p = b; p < e; ++p) AddLevels(args, levels, p, parts + worker * cells);
      });
    });
  }

 private:
  // Computes the gradient of plane p. `part` is scratch for that of one level.
  template <typename T>
  static void AddLevels(const BackwardArgs& args, const SppLevels& levels, int64_t p, T* part) {
    const Shape& shape = args.input_grads[0].shape();
    const int64_t item = args.output_grads[0].shape().count(1);
    const int64_t cells = shape.count(2);
    const T* x = args.inputs[0].empty() ? nullptr : args.inputs[0].data<T>() + p * cells;
    T* dx = args.input_grads[0].data<T>() + p * cells;
    for (size_t i = 0; i < levels.size(); ++i) {
      const auto& [pool, first] = levels[i];
      const T* dy =
          args.output_grads[0].data<T>() + p / shape[1] * item + first + p % shape[1] * pool.out();
      const void* index = i < args.saved.size() ? args.saved[i].raw() : nullptr;
      pool.Backward(1, x, dy, i == 0 ? dx : part, pool.IndexAt(index, p * pool.out()));
      for (int64_t j = 0; i > 0 && j < cells; ++j) dx[j] += part[j];
    }
  }
};

std::vector<LayerSample> Samples() {
  const auto sample = [](const char* name, const char* fields, std::vector<int64_t> shape) {
    LayerSample made;
    made.name = name;
    made.prototxt = std::string("spp_param { ") + fields + " }";
    made.inputs = {{.shape = std::move(shape), .distinct = true}};
    return made;
  };
  std::vector<LayerSample> samples = {
      sample("max", "pyramid_height: 3", {2, 3, 9, 8}),
      sample("average", "pyramid_height: 3 pool: AVE", {1, 2, 7, 6}),
      sample("one_level", "pyramid_height: 1", {2, 3, 5, 4}),
      sample("large_windows", "pyramid_height: 2", {1, 1, 40, 33}),
      sample("drawn", "pyramid_height: 2 pool: STOCHASTIC", {1, 2, 4, 6}),
      sample("drawn_test", "pyramid_height: 2 pool: STOCHASTIC", {1, 2, 4, 2}),
      sample("empty_batch", "pyramid_height: 2", {0, 2, 4, 4}),
  };
  for (size_t i = 4; i < 6; ++i) {
    samples[i].inputs[0].low = 0.1;
    samples[i].inputs[0].high = 4;
  }
  samples[5].phase = TEST;
  return samples;
}

}  // namespace

void RegisterSPP(Registry& registry) {
  LayerType type;
  type.name = "SPP";
  type.category = "pooling";
  type.summary = "Spatial pyramid pooling: the same number of values from planes of any size.";
  type.formula =
      "y[n] = for level i = 0, 1, ..: for each channel: 2^i x 2^i bins, each the largest, the mean "
      "or a drawn value";
  type.input_docs = {"x: N x C x H x W"};
  type.output_docs = {"y: N x (C * sum of 4^i over the levels); N x C x 1 x 1 for one level"};
  type.differences = {"STOCHASTIC runs on the CPU too.",
                      "Sizes that Caffe's check of padding rejects are rejected here as well."};
  type.param_fields = {"spp_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const SPP>(p); };
  type.samples = Samples();
  const auto bad = [](const char* fields, const char* expect,
                      std::vector<int64_t> shape = {1, 2, 5, 5}) {
    return BadSample{std::string("spp_param { ") + fields + " }", {std::move(shape)}, expect};
  };
  type.bad_samples = {
      bad("", "pyramid_height, the number of levels, is missing"),
      bad("pyramid_height: 0", "it is 0"),
      bad("pyramid_height: 40", "it is 40"),
      bad("pyramid_height: 3", "cannot be cut into 4 bins"),
      bad("pyramid_height: 2 pool: STOCHASTIC", "takes no padding"),
      bad("pyramid_height: 2", "4 axes", {1, 2, 5}),
      bad("pyramid_height: 1", "cannot be cut into 1 bins", {1, 2, 0, 5}),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
