// Cast: converts x to another type, and stores the result in the type of the net.
//   FLOAT16, FLOAT: the nearest value, ties to even; infinity beyond the largest one
//   DOUBLE: x (nets compute in single precision; the gradient check in double)
//   INT, UINT: truncated towards 0; clamped to the 32-bit range; 0 for NaN
//   BOOL: 0 where x is 0, else 1
// dx = dy, straight through: backward reads neither x nor y, and the layer may run in place.
#include "layers/arithmetic/cast.h"

#include <cstring>
#include <memory>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "graph/registry.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // minimum elements per thread

class Cast final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = Reach::kElement;
    info.in_place = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const Type to = param().cast_param().to();
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ParallelFor(args.context.threads(), args.inputs[0].count(), kGrain,
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) y[i] = CastTo(to, x[i]);
                  });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const ConstTensorView& dy = args.output_grads[0];
    void* dx = args.input_grads[0].raw();
    if (dx != dy.raw()) std::memcpy(dx, dy.raw(), dy.bytes());
  }
};

}  // namespace

void RegisterCast(Registry& registry) {
  LayerType type;
  type.name = "Cast";
  type.category = "arithmetic";
  type.summary =
      "Rounds values to what another type can hold; blobs keep the type of the net, and gradients "
      "pass straight through.";
  type.formula =
      "y = to(x); FLOAT16: nearest, ties to even; INT, UINT: cut towards 0, kept within 32 bits, 0 "
      "for NaN; BOOL: 1 where x is not 0; FLOAT, DOUBLE: x; dx = dy";
  type.input_docs = {"x: any shape"};
  type.output_docs = {"y: the shape of x"};
  type.origin = "Crema";
  type.param_fields = {"cast_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Cast>(p); };
  // Only DOUBLE is smooth in the double precision of the gradient check.
  const auto sample = [](const std::string& to, std::vector<int64_t> shape) {
    return LayerSample{.name = to,
                       .prototxt = "cast_param { to: " + to + " }",
                       .inputs = {{.shape = std::move(shape), .low = -9, .high = 9}},
                       .gradient = to == "DOUBLE"};
  };
  type.samples = {sample("FLOAT16", {2, 3, 4, 5}), sample("INT", {2, 3, 4, 5}),
                  sample("UINT", {3, 6007}),       sample("BOOL", {7}),
                  sample("FLOAT", {2, 3}),         sample("DOUBLE", {3, 4}),
                  sample("DOUBLE", {0, 3})};
  type.samples.back().name = "empty_batch";
  registry.Add(std::move(type));
}

}  // namespace crema
