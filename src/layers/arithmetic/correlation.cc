// Correlation (Dosovitskiy et al.: FlowNet, 2015): y[n, d, i, j] = mean over the channels and a
// patch of a[n] at (i, j) * b[n] there, moved by displacement d. Both maps have zeros around. With
// SUBTRACT, the absolute difference instead of the product.
#include "layers/arithmetic/correlation.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // fewest products per thread

class Correlation final : public Layer {
 public:
  explicit Correlation(const LayerParameter& param) : Layer(param) {
    const CorrelationParameter& p = param.correlation_param();
    if (p.kernel_size() % 2 == 0) {
      FailField(*this, "correlation_param.kernel_size",
                StrCat("kernel_size is ", p.kernel_size(), ", expected an odd number"));
    }
    if (!p.has_max_displacement()) {
      FailField(*this, "correlation_param.max_displacement", "max_displacement is missing");
    }
    if (p.stride_1() == 0) {
      FailField(*this, "correlation_param.stride_1", "stride_1 must be above 0");
    }
    if (p.stride_2() == 0) {
      FailField(*this, "correlation_param.stride_2", "stride_2 must be above 0");
    }
    constexpr uint32_t kMost = 1 << 20;
    if (std::max({p.kernel_size(), p.max_displacement(), p.pad()}) > kMost) {
      FailField(*this, "correlation_param.max_displacement",
                StrCat("kernel_size, max_displacement and pad may be at most ", kMost));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const CorrelationSums s(*this, context.inputs[0].shape, context.inputs[1].shape);
    LayerInfo info;
    info.outputs = {{s.Output(), context.inputs[0].dtype}};
    info.reach = Reach::kSample;
    info.backward_reads_input = {true, true};
    info.macs = info.outputs[0].shape.count() * s.channels * s.kernel * s.kernel;
    return info;
  }

  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int threads) const override {
    const CorrelationSums s(*this, context.inputs[0].shape, context.inputs[1].shape);
    return static_cast<size_t>(threads) * ScratchBytes<double>(s.out_width) + kScratchSlack;
  }

  void Forward(const ForwardArgs& args) const override {
    const CorrelationSums s(*this, args.inputs[0].shape(), args.inputs[1].shape());
    const auto piece = static_cast<int64_t>(ScratchBytes<double>(s.out_width) / sizeof(double));
    double* sums = ScratchCutter(args.scratch).Take<double>(piece * args.context.threads());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T *a = args.inputs[0].data<T>(), *b = args.inputs[1].data<T>();
      const int64_t work = std::max<int64_t>(1, s.out_width * s.channels * s.kernel * s.kernel);
      ParallelFor(args.context.threads(), s.images * s.side * s.side * s.out_height,
                  std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end, int worker) {
                    for (int64_t line = begin; line < end; ++line) {
                      SetLine(s, a, b, line, sums + worker * piece,
                              args.outputs[0].data<T>() + line * s.out_width);
                    }
                  });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const CorrelationSums s(*this, args.inputs[0].shape(), args.inputs[1].shape());
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      for (size_t k = 0; k < 2; ++k) {
        if (args.input_grads[k].empty()) continue;
        T* d = args.input_grads[k].data<T>();
        const T *own = args.inputs[k].data<T>(), *other = args.inputs[1 - k].data<T>();
        ParallelFor(args.context.threads(), args.input_grads[k].count(),
                    std::max<int64_t>(1, kGrain / (s.side * s.side * s.kernel * s.kernel)),
                    [&](int64_t begin, int64_t end, int) {
                      for (int64_t i = begin; i < end; ++i) {
                        d[i] = static_cast<T>(
                            s.Gradient(own, other, args.output_grads[0].data<T>(), k == 1, i));
                      }
                    });
      }
    });
  }

 private:
  // Writes line `line` of the output, in the order of memory: CorrelationSums::Value would jump
  // from channel to channel for each element.
  template <typename T>
  static void SetLine(const CorrelationSums& s, const T* a, const T* b, int64_t line, double* sums,
                      T* y) {
    const int64_t d = line / s.out_height % (s.side * s.side);
    const int64_t n = line / s.out_height / (s.side * s.side);
    const int64_t row = s.First(line % s.out_height), plane = s.height * s.width;
    std::fill_n(sums, s.out_width, 0);
    for (int64_t c = n * s.channels; c < (n + 1) * s.channels; ++c) {
      for (int64_t k = 0; k < s.kernel * s.kernel; ++k) {
        const int64_t at = row + k / s.kernel;
        for (int64_t j = 0; j < s.out_width; ++j) {
          const int64_t x = s.First(j) + k % s.kernel;
          sums[j] += s.Compare(s.At(a + c * plane, at, x),
                               s.At(b + c * plane, at + s.Down(d), x + s.Across(d)));
        }
      }
    }
    const auto divisor = static_cast<double>(s.channels * s.kernel * s.kernel);
    for (int64_t j = 0; j < s.out_width; ++j) y[j] = static_cast<T>(sums[j] / divisor);
  }
};

// Returns the size of the output on one axis. Throws like FailInputs if there is none.
int64_t OutputSize(const Layer& layer, const CorrelationSums& s, int64_t size, const Shape& shape) {
  const int64_t border = 2 * s.displacement + s.kernel - 1;
  const int64_t inner = size + 2 * s.pad - border;
  if (inner > 0) return (inner + s.stride1 - 1) / s.stride1;
  FailInputs(layer, StrCat("maps of shape ", ToString(shape), " with pad ", s.pad,
                           " have no place whose patch and displacements, ", border + 1,
                           " elements, are inside; increase pad"));
}

std::vector<LayerSample> Samples() {
  const auto sample = [](std::string name, const std::string& fields,
                         const std::vector<int64_t>& shape) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "correlation_param { " + fields + " }",
                       .inputs = {{.shape = shape}, {.shape = shape}}};
  };
  return {
      sample("plain", "kernel_size: 1 max_displacement: 2 pad: 2", {2, 3, 4, 5}),
      sample("strides", "kernel_size: 1 max_displacement: 3 pad: 3 stride_1: 2 stride_2: 2",
             {2, 2, 5, 6}),
      sample("patches", "kernel_size: 3 max_displacement: 2 pad: 3 stride_1: 2", {1, 2, 6, 5}),
      sample("no_padding", "kernel_size: 3 max_displacement: 1 stride_2: 1", {2, 2, 5, 6}),
      sample("wide_padding", "kernel_size: 1 max_displacement: 1 pad: 3", {2, 2, 2, 3}),
      sample("no_displacement", "kernel_size: 1 max_displacement: 0", {2, 3, 2, 2}),
      {.name = "subtract",
       .prototxt = "correlation_param { kernel_size: 3 max_displacement: 1 pad: 2 stride_1: 2 "
                   "correlation_type: SUBTRACT }",
       // Without kinks: differences are not 0.
       .inputs = {{.shape = {2, 2, 4, 5}, .low = 0.1, .high = 0.4},
                  {.shape = {2, 2, 4, 5}, .low = 0.5, .high = 1}}},
      sample("empty_batch", "kernel_size: 1 max_displacement: 1 pad: 1", {0, 2, 3, 3}),
  };
}

}  // namespace

CorrelationSums::CorrelationSums(const Layer& layer, const Shape& a, const Shape& b) {
  if (a.axes() != 4 || a != b || a[1] == 0) {
    FailInputs(layer, StrCat("both maps must be N x C x H x W, of the same shape, with channels, "
                             "but they are ",
                             ToString(a), " and ", ToString(b)));
  }
  const CorrelationParameter& p = layer.param().correlation_param();
  images = a[0];
  channels = a[1];
  height = a[2];
  width = a[3];
  pad = p.pad();
  kernel = p.kernel_size();
  displacement = p.max_displacement();
  stride1 = p.stride_1();
  stride2 = p.stride_2();
  side = 2 * (displacement / stride2) + 1;
  subtracts = p.correlation_type() == CorrelationParameter::SUBTRACT;
  out_height = OutputSize(layer, *this, height, a);
  out_width = OutputSize(layer, *this, width, a);
}

void RegisterCorrelation(Registry& registry) {
  LayerType type;
  type.name = "Correlation";
  type.category = "arithmetic";
  type.summary = "Compares the patches of two feature maps over displacements (FlowNet).";
  type.formula =
      "y[n, d, i, j] = mean over c and k of a[n, c, p + k] * b[n, c, p + k + displacement d], p = "
      "(i, j) * stride_1 + max_displacement - pad; |a - b| with SUBTRACT; displacements are "
      "multiples of stride_2, row by row";
  type.input_docs = {"a: N x C x H x W", "b: the shape of a"};
  type.output_docs = {
      "y: N x D^2 x H' x W', D = 2 floor(max_displacement / stride_2) + 1, H' = ceil((H + 2 pad - "
      "2 "
      "max_displacement - kernel_size + 1) / stride_1)"};
  type.differences = {"do_abs has no effect, as in the fork."};
  type.origin = "FlowNet";
  type.param_fields = {"correlation_param"};
  type.unread_fields = {"correlation_param.do_abs", "correlation_param.single_direction"};
  type.inputs = {2, 2};
  type.traits.fits_16_bits = true;
  type.make = [](const LayerParameter& p) { return std::make_unique<const Correlation>(p); };
  type.samples = Samples();
  const auto bad = [](const std::string& fields, const char* expect,
                      std::vector<std::vector<int64_t>> shapes = {{1, 2, 4, 4}, {1, 2, 4, 4}}) {
    return BadSample{"correlation_param { " + fields + " }", std::move(shapes), expect};
  };
  type.bad_samples = {
      bad("max_displacement: 1", "kernel_size is 0"),
      bad("kernel_size: 2 max_displacement: 1", "kernel_size is 2"),
      bad("kernel_size: 1", "max_displacement is missing"),
      bad("kernel_size: 1 max_displacement: 1 stride_1: 0", "stride_1 must"),
      bad("kernel_size: 1 max_displacement: 1 stride_2: 0", "stride_2 must"),
      bad("kernel_size: 1 max_displacement: 4000000000", "at most 1048576"),
      bad("kernel_size: 1 max_displacement: 2", "increase pad"),
      bad("kernel_size: 1 max_displacement: 1", "of the same shape", {{1, 2, 4, 4}, {1, 2, 4, 5}}),
      bad("kernel_size: 1 max_displacement: 1", "N x C x H x W", {{1, 2, 4}, {1, 2, 4}}),
      bad("kernel_size: 1 max_displacement: 1", "with channels", {{1, 0, 4, 4}, {1, 0, 4, 4}}),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
