// Axpy: y = a[n, c] * x + z, the scaling of squeeze-and-excitation together with the sum after it.
// da[n, c] = sum of dy * x over the plane; dx = a[n, c] * dy; dz = dy.
#include <algorithm>
#include <cstring>
#include <memory>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "math/broadcast.h"

namespace crema {
namespace {

class Axpy final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& a = context.inputs[0].shape;
    const Shape& x = context.inputs[1].shape;
    const Shape& z = context.inputs[2].shape;
    if (x != z) {
      FailInputs(*this, StrCat("the second and the third bottom must have one shape, but they are ",
                               ToString(x), " and ", ToString(z)));
    }
    const bool fits = a.axes() >= 2 && x.axes() >= 2 && a[0] == x[0] && a[1] == x[1] &&
                      std::ranges::all_of(a.dims().subspan(2), [](int64_t d) { return d == 1; });
    if (!fits) {
      FailInputs(*this, StrCat("the first bottom is ", ToString(a), ", expected one factor for ",
                               "each item and channel of the second, ", ToString(x)));
    }
    LayerInfo info;
    info.outputs = {context.inputs[1]};
    info.reach = a == x ? Reach::kElement : Reach::kSample;
    info.backward_reads_input = {true, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[1].dtype(), [&]<typename T>(T) {
      const auto apply = [](T x, T z, T a) { return a * x + z; };
      Broadcast(args.context.threads(), SizesOf(args.inputs[1].shape()), apply,
                args.inputs[1].data<T>(), args.inputs[2].data<T>(), args.outputs[0].data<T>(),
                args.inputs[0].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const int threads = args.context.threads();
    const BroadcastShape sizes = SizesOf(args.inputs[1].shape());
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      if (const TensorView& da = args.input_grads[0]; !da.empty()) {
        std::fill_n(da.data<T>(), da.count(), T(0));
        const auto product = [](T d, T x) { return d * x; };
        AddBroadcastSums(threads, sizes, product, dy, args.inputs[1].data<T>(), da.data<T>());
      }
      if (const TensorView& dx = args.input_grads[1]; !dx.empty()) {
        const auto apply = [](T d, T, T a) { return a * d; };
        Broadcast(threads, sizes, apply, dy, dy, dx.data<T>(), args.inputs[0].data<T>());
      }
      if (const TensorView& dz = args.input_grads[2]; !dz.empty()) {
        std::memcpy(dz.raw(), dy, dz.bytes());
      }
    });
  }

 private:
  static BroadcastShape SizesOf(const Shape& x) { return {1, x.count(0, 2), x.count(2)}; }
};

}  // namespace

void RegisterAxpy(Registry& registry) {
  LayerType type;
  type.name = "Axpy";
  type.traits = {.fits_16_bits = true};
  type.category = "arithmetic";
  type.summary = "Scales each channel of each item and adds another blob, as SE-Net does.";
  type.formula = "y[n, c, i] = a[n, c] * x[n, c, i] + z[n, c, i]";
  type.input_docs = {"a: N x C, or with further axes of size 1",
                     "x: N x C x ..., any number of axes from 2", "z: the shape of x"};
  type.output_docs = {"y: the shape of x"};
  type.differences = {"a may be N x C besides N x C x 1 x 1, x of any number of axes."};
  type.origin = "SE-Net";
  type.inputs = {3, 3};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Axpy>(p); };
  const SampleInput image{.shape = {2, 3, 4, 5}};
  const SampleInput large{.shape = {3, 2, 20011}};
  const SampleInput rows{.shape = {4, 5}};
  const SampleInput none{.shape = {0, 3, 2}};
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {2, 3, 1, 1}}, image, image}},
      {.name = "matrix", .prototxt = "", .inputs = {{.shape = {2, 3}}, image, image}},
      {.name = "rows", .prototxt = "", .inputs = {rows, rows, rows}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {3, 2}}, large, large}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, none, none}},
  };
  type.bad_samples = {
      {"", {{2, 3}, {2, 3, 4}, {2, 3, 5}}, "2x3x4 and 2x3x5"},
      {"", {{2, 4}, {2, 3, 4}, {2, 3, 4}}, "the first bottom is 2x4"},
      {"", {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}}, "the first bottom is 2x3x4"},
      {"", {{2}, {2}, {2}}, "the first bottom is 2,"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
