// Threshold: y = 1 where x > threshold, else 0, element by element. It is flat except at one point
// and has no gradient.
#include "crema.pb.h"
#include "layers/activation/elementwise.h"
#include "layers/layer_number.h"

namespace crema {
namespace {

constexpr int64_t kGrain = kCheapGrain;

class Threshold final : public Layer {
 public:
  explicit Threshold(const LayerParameter& param)
      : Layer(param),
        threshold_(FiniteNumber(*this, param.threshold_param().threshold(),
                                "threshold_param.threshold")) {}

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = Reach::kElement;
    info.in_place = true;
    info.gradient_forbidden = {true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      const T threshold = static_cast<T>(threshold_);
      ParallelFor(args.context.threads(), args.inputs[0].count(), kGrain,
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) y[i] = x[i] > threshold ? T(1) : T(0);
                  });
    });
  }

 private:
  const float threshold_;
};

}  // namespace

void RegisterThreshold(Registry& registry) {
  LayerType type;
  type.name = "Threshold";
  type.category = "activation";
  type.summary = "Marks the values that exceed a threshold; has no gradient.";
  type.formula = "y = 1 where x > threshold, 0 elsewhere";
  type.input_docs = {"x: any shape; receives no gradient"};
  type.output_docs = {"y: the shape of x, zeros and ones"};
  type.differences = {
      "If an earlier layer needs its gradient, the net is refused when it is planned; Caffe aborts "
      "in the first backward pass."};
  type.param_fields = {"threshold_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Threshold>(p); };
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 4, 5}}}, .gradient = false},
      {.name = "half",
       .prototxt = "threshold_param { threshold: 0.5 }",
       .inputs = {{.shape = {5, 9001}}},
       .gradient = false},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}, .gradient = false},
  };
  type.bad_samples = {
      {"threshold_param { threshold: nan }", {{2}}, "threshold is nan, expected a finite number"}};
  registry.Add(std::move(type));
}

}  // namespace crema
