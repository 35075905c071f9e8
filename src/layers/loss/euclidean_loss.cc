// EuclideanLoss: loss = sum (a - b)^2 / (2 N), N being the extent of axis 0.
// da = (a - b) * dloss / N, db = -da: both sides may get a gradient.
#include <algorithm>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "math/reduce.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements that pay for a thread

template <typename T>
double SquaredDistance(const T* a, const T* b, int64_t begin, int64_t end) {
  double sum = 0;
  for (int64_t i = begin; i < end; ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return sum;
}

// N; 1 for an empty batch, whose loss is 0.
double BatchSize(const Shape& shape) { return static_cast<double>(std::max<int64_t>(1, shape[0])); }

class EuclideanLoss final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& a = context.inputs[0].shape;
    const Shape& b = context.inputs[1].shape;
    if (a.axes() == 0 || b.axes() == 0 || a[0] != b[0] || a.count(1) != b.count(1)) {
      FailInputs(*this, StrCat("the two inputs need the same batch size and the same number of "
                               "values for each item, but their shapes are ",
                               ToString(a), " and ", ToString(b)));
    }
    LayerInfo info;
    info.outputs = {{Shape{}, context.inputs[0].dtype}};
    info.backward_reads_input = {true, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* a = args.inputs[0].data<T>();
      const T* b = args.inputs[1].data<T>();
      const double sum =
          OrderedSum(args.context.threads(), args.inputs[0].count(), kGrain,
                     [&](int64_t begin, int64_t end) { return SquaredDistance(a, b, begin, end); });
      args.outputs[0].data<T>()[0] = static_cast<T>(sum / (2 * BatchSize(args.inputs[0].shape())));
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* a = args.inputs[0].data<T>();
      const T* b = args.inputs[1].data<T>();
      const T weight = args.output_grads[0].data<T>()[0];
      for (size_t side = 0; side < 2; ++side) {
        if (args.input_grads[side].empty()) continue;
        const T scale = (side == 0 ? weight : -weight) / T(BatchSize(args.inputs[0].shape()));
        T* dx = args.input_grads[side].data<T>();
        ParallelFor(args.context.threads(), args.inputs[0].count(), kGrain,
                    [&](int64_t begin, int64_t end, int) {
                      for (int64_t i = begin; i < end; ++i) dx[i] = scale * (a[i] - b[i]);
                    });
      }
    });
  }
};

}  // namespace

void RegisterEuclideanLoss(Registry& registry) {
  LayerType type;
  type.name = "EuclideanLoss";
  type.category = "loss";
  type.summary = "Half the mean squared distance of two blobs.";
  type.formula = "loss = sum (a - b)^2 / (2 N)";
  type.inputs = {2, 2};
  type.default_loss_weight = 1;
  type.make = [](const LayerParameter& p) { return std::make_unique<const EuclideanLoss>(p); };
  type.samples = {
      {.name = "rows", .prototxt = "", .inputs = {{.shape = {4, 3}}, {.shape = {4, 3}}}},
      {.name = "other_shape",
       .prototxt = "",
       .inputs = {{.shape = {2, 3, 4}}, {.shape = {2, 12, 1, 1}}}},
      {.name = "one_value_each", .prototxt = "", .inputs = {{.shape = {5}}, {.shape = {5, 1}}}},
      {.name = "batch_1", .prototxt = "", .inputs = {{.shape = {1, 7}}, {.shape = {1, 7}}}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {3, 33301}}, {.shape = {3, 33301}}}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
  };
  const std::string expect = "same batch size and the same number of values";
  type.bad_samples = {
      {.prototxt = "", .input_shapes = {{4, 3}, {3, 4}}, .expect = expect},
      {.prototxt = "", .input_shapes = {{4, 3}, {4, 2}}, .expect = expect},
      {.prototxt = "", .input_shapes = {{}, {1}}, .expect = expect},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
