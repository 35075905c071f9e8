// Maxout: y[c] = max of x[c k] ... x[c k + k - 1] over groups of k adjacent channels (axis 1).
// dx = dy at the first of the largest, else 0. Backward looks for it again, so it reads x.
#include "layers/arithmetic/maxout.h"

#include <algorithm>
#include <memory>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // outputs that justify a thread

class Maxout final : public Layer {
 public:
  explicit Maxout(const LayerParameter& param) : Layer(param) {
    const MaxoutParameter& p = param.maxout_param();
    if (p.has_num_output() == p.has_chgroup_sz()) {
      FailField(*this, "maxout_param",
                "write either num_output, the channels of the output, or chgroup_sz, the channels "
                "that each of them is taken from");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    const MaxoutSize size(*this, x);
    LayerInfo info;
    info.outputs = {{x.With(1, size.channels), context.inputs[0].dtype}};
    info.reach = Reach::kSample;
    info.backward_reads_input = {true};
    info.moves_only = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const MaxoutSize size(*this, args.inputs[0].shape());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ParallelFor(args.context.threads(), args.outputs[0].count(), kGrain,
                  [=](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) y[i] = x[size.Largest(x, i)];
                  });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const MaxoutSize size(*this, args.inputs[0].shape());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      ParallelFor(args.context.threads(), args.output_grads[0].count(), kGrain,
                  [=](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) size.Backward(x, dy, i, dx);
                  });
    });
  }
};

}  // namespace

MaxoutSize::MaxoutSize(const Layer& layer, const Shape& x) {
  if (x.axes() < 2) {
    FailInputs(layer, StrCat("the input is ", ToString(x),
                             ", expected 2 axes or more; the channels are axis 1"));
  }
  const MaxoutParameter& p = layer.param().maxout_param();
  const bool by_outputs = p.has_num_output();
  const int64_t divisor = by_outputs ? p.num_output() : p.chgroup_sz();
  if (divisor == 0 || x[1] == 0 || x[1] % divisor != 0) {
    const char* field = by_outputs ? "num_output" : "chgroup_sz";
    FailField(layer, StrCat("maxout_param.", field),
              StrCat(field, " is ", divisor, ", expected a divisor of the ", x[1], " channels"));
  }
  channels = by_outputs ? divisor : x[1] / divisor;
  group = x[1] / std::max<int64_t>(1, channels);
  inner = x.count(2);
}

void RegisterMaxout(Registry& registry) {
  LayerType type;
  type.name = "Maxout";
  type.traits = {.fits_16_bits = true};
  type.category = "arithmetic";
  type.summary = "The largest value of each group of adjacent channels.";
  type.formula = "y[c] = max(x[k c], ..., x[k c + k - 1]), k = channels / num_output = chgroup_sz";
  type.input_docs = {"x: N x C x ..., any number of axes from 2"};
  type.output_docs = {"y: N x C / k x ..."};
  type.origin = "super-caffe, private-caffe";
  type.differences = {
      "One bottom. The forks' chgroup_sz has no default here. `minout` of private-caffe: negate "
      "the "
      "bottom and the top with Power { power_param { scale: -1 } }.",
      "The Maxout of 2013, an inner product and a maximum in one layer (k_per_group), is "
      "InnerProduct and Maxout; its weights are those of the inner product."};
  type.param_fields = {"maxout_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Maxout>(p); };
  const SampleInput image{.shape = {2, 6, 3, 4}, .distinct = true};
  type.samples = {
      {.name = "outputs", .prototxt = "maxout_param { num_output: 3 }", .inputs = {image}},
      {.name = "groups", .prototxt = "maxout_param { chgroup_sz: 3 }", .inputs = {image}},
      {.name = "rows",
       .prototxt = "maxout_param { num_output: 2 }",
       .inputs = {{.shape = {5, 8}, .distinct = true}}},
      {.name = "alone", .prototxt = "maxout_param { chgroup_sz: 1 }", .inputs = {image}},
      {.name = "large",
       .prototxt = "maxout_param { chgroup_sz: 2 }",
       .inputs = {{.shape = {2, 4, 20011}}},
       .gradient = false},
      {.name = "empty_batch",
       .prototxt = "maxout_param { num_output: 3 }",
       .inputs = {{.shape = {0, 6}}}},
  };
  type.bad_samples = {
      {"", {{2, 6}}, "write either num_output"},
      {"maxout_param { num_output: 3 chgroup_sz: 2 }", {{2, 6}}, "write either num_output"},
      {"maxout_param { num_output: 4 }", {{2, 6}}, "num_output is 4, expected a divisor of the 6"},
      {"maxout_param { num_output: 0 }", {{2, 6}}, "num_output is 0"},
      {"maxout_param { num_output: 3 }", {{2, 0}}, "expected a divisor of the 0"},
      {"maxout_param { chgroup_sz: 4 }", {{2, 6}}, "chgroup_sz is 4, expected a divisor of the 6"},
      {"maxout_param { chgroup_sz: 2 }", {{6}}, "expected 2 axes or more"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
