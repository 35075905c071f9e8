// UnPooling: enlarges planes by windows, the inverse of pooling.
//   MAX   each value goes to the position given by the mask, input 1; 0 elsewhere
//   AVE   each value is spread over its window: y = the gradient of AVE pooling, dx = AVE pooling
//   TILE  each value is copied to all positions of its window; overlapping windows are added
#include <algorithm>
#include <limits>
#include <string>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/pooling/pool_geometry.h"
#include "layers/sampling/mask_unpool.h"
#include "layers/sampling/unpool_window.h"
#include "math/pool.h"

namespace crema {
namespace {

// Calls visit(value, cell) for each value of a small plane and each position of its window.
template <typename Visit>
void ForWindowCells(const PoolWindow& w, Visit&& visit) {
  for (int64_t oh = 0; oh < w.h.out; ++oh) {
    for (int64_t ow = 0; ow < w.w.out; ++ow) {
      for (int64_t ih = w.h.Begin(oh); ih < w.h.End(oh); ++ih) {
        for (int64_t iw = w.w.Begin(ow); iw < w.w.End(ow); ++iw) {
          visit(oh * w.w.out + ow, ih * w.w.in + iw);
        }
      }
    }
  }
}

template <typename T>
void TileForward(const PoolWindow& w, const T* x, T* y) {
  std::fill(y, y + w.InSize(), T(0));
  ForWindowCells(w, [&](int64_t value, int64_t cell) { y[cell] += x[value]; });
}

template <typename T>
void TileBackward(const PoolWindow& w, const T* dy, T* dx) {
  std::fill(dx, dx + w.OutSize(), T(0));
  ForWindowCells(w, [&](int64_t value, int64_t cell) { dx[value] += dy[cell]; });
}

class UnPooling final : public Layer {
 public:
  explicit UnPooling(const LayerParameter& param)
      : Layer(param), method_(param.unpooling_param().unpool()) {
    const UnPoolingParameter& p = param.unpooling_param();
    const std::string message = "unpooling_param";
    if (!p.has_kernel_size() && !p.has_kernel_h() && !p.has_kernel_w()) {
      FailField(*this, message + ".kernel_size",
                "kernel_size is missing; give it, or kernel_h and kernel_w");
    }
    CheckPairForm(*this, message, "kernel", p.has_kernel_size(), p.has_kernel_h(),
                  p.has_kernel_w());
    CheckPairForm(*this, message, "stride", p.has_stride(), p.has_stride_h(), p.has_stride_w());
    CheckPairForm(*this, message, "pad", p.has_pad(), p.has_pad_h(), p.has_pad_w());
    CheckPairForm(*this, message, "unpool", p.has_unpool_size(), p.has_unpool_h(),
                  p.has_unpool_w());
    const UnpoolSide kernel = UnpoolKernel(p), stride = UnpoolStride(p), pad = UnpoolPad(p);
    if (kernel.h == 0 || kernel.w == 0) {
      FailField(*this, message + ".kernel_size", "the kernel size must be above 0");
    }
    if (kernel.h > std::numeric_limits<int32_t>::max() / kernel.w) {
      FailField(*this, message + ".kernel_size",
                StrCat("a window of ", kernel.h, "x", kernel.w, " is too large"));
    }
    if (stride.h == 0 || stride.w == 0) {
      FailField(*this, message + ".stride", "stride must be above 0");
    }
    if (pad.h >= kernel.h || pad.w >= kernel.w) {
      FailField(*this, message + ".pad",
                StrCat("pad ", pad.h, "x", pad.w, " must be smaller than the kernel ", kernel.h,
                       "x", kernel.w));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& input = context.inputs[0].shape;
    const bool masked = context.inputs.size() > 1;
    if (masked != (method_ == UnPoolingParameter::MAX)) {
      FailInputs(*this, masked ? "only MAX takes a mask; AVE and TILE have one bottom"
                               : "MAX needs a mask, the second top of Pooling MAX, as second "
                                 "bottom");
    }
    if (input.axes() != 4) {
      FailInputs(*this,
                 StrCat("the input needs 4 axes (batch, channels, height, width), but it is ",
                        ToString(input)));
    }
    if (masked) CheckMaskShape(*this, input, context.inputs[1].shape);
    LayerInfo info;
    const PoolWindow window = UnpoolWindow(*this, input);
    info.outputs = {{Shape{input[0], input[1], window.h.in, window.w.in}, context.inputs[0].dtype}};
    info.reach = Reach::kSample;
    info.moves_only = method_ == UnPoolingParameter::TILE && window.h.kernel <= window.h.stride &&
                      window.w.kernel <= window.w.stride;
    if (masked) info.backward_reads_input = {false, true};
    return info;
  }

  size_t BackwardScratch(const InferContext&, const LayerInfo& info, int threads) const override {
    if (method_ != UnPoolingParameter::MAX) return 0;
    return BackwardMaskUnpoolScratch(info.outputs[0].shape, threads);
  }

  void Forward(const ForwardArgs& args) const override {
    if (method_ == UnPoolingParameter::MAX) return ForwardMaskUnpool(*this, args);
    const Shape& shape = args.inputs[0].shape();
    const PoolWindow w = UnpoolWindow(*this, shape);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ParallelFor(args.context.threads(), shape.count(0, 2), 1, [&](int64_t b, int64_t e, int) {
        for (int64_t p = b; p < e; ++p) {
          if (method_ == UnPoolingParameter::AVE) {
            AveragePoolBackward(w, false, 1, x + p * w.OutSize(), y + p * w.InSize());
          } else {
            TileForward(w, x + p * w.OutSize(), y + p * w.InSize());
          }
        }
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    if (method_ == UnPoolingParameter::MAX) return BackwardMaskUnpool(*this, args);
    const Shape& shape = args.input_grads[0].shape();
    const PoolWindow w = UnpoolWindow(*this, shape);
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      ParallelFor(args.context.threads(), shape.count(0, 2), 1, [&](int64_t b, int64_t e, int) {
        for (int64_t p = b; p < e; ++p) {
          if (method_ == UnPoolingParameter::AVE) {
            AveragePool(w, false, 1, dy + p * w.InSize(), dx + p * w.OutSize());
          } else {
            TileBackward(w, dy + p * w.InSize(), dx + p * w.OutSize());
          }
        }
      });
    });
  }

 private:
  const UnPoolingParameter::UnPoolMethod method_;
};

std::vector<LayerSample> Samples() {
  const auto sample = [](const char* name, const std::string& fields, bool masked = false) {
    LayerSample made;
    made.name = name;
    made.prototxt = "unpooling_param { " + fields + " }";
    made.inputs = {{.shape = {2, 2, 3, 4}}};
    if (masked) {
      made.inputs.push_back({.shape = {2, 2, 3, 4}, .low = -1, .high = 47, .integer = true});
    }
    return made;
  };
  std::vector<LayerSample> samples = {
      sample("max", "unpool: MAX kernel_size: 2 stride: 2", true),
      sample("max_size", "kernel_size: 3 stride: 2 unpool_h: 7 unpool_w: 8", true),
      sample("average", "unpool: AVE kernel_size: 2 stride: 2"),
      sample("average_overlap", "unpool: AVE kernel_size: 3 stride: 2 pad: 1"),
      sample("average_size", "unpool: AVE kernel_size: 3 stride: 2 unpool_size: 8"),
      sample("tile", "unpool: TILE kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 3"),
      sample("tile_overlap",
             "unpool: TILE kernel_size: 3 stride: 1 pad_h: 1 pad_w: 2 unpool_size: 9"),
      sample("empty_batch", "unpool: AVE kernel_size: 2"),
      sample("max_empty_batch", "kernel_size: 2", true),
  };
  for (size_t i = 7; i < 9; ++i) {
    for (SampleInput& input : samples[i].inputs) input.shape = {0, 2, 3, 4};
  }
  return samples;
}

}  // namespace

void RegisterUnPooling(Registry& registry) {
  LayerType type;
  type.name = "UnPooling";
  type.category = "sampling";
  type.summary = "Enlarges planes by windows: the inverse of pooling, for decoders.";
  type.formula =
      "MAX: y = 0 but y[mask] = x; AVE: y = sum over windows that hold the place of x / cells of "
      "the window; TILE: the same without the division";
  type.input_docs = {"x: N x C x H x W",
                     "mask, for MAX: the shape of x; row * width + column in the output, as in the "
                     "second top of Pooling MAX, or -1 for none"};
  type.output_docs = {"y: N x C x H' x W'; H' = unpool_h, or (H - 1) stride + kernel - 2 pad"};
  type.origin = "DeconvNet";
  type.differences = {
      "MAX always takes a mask; forks without one put values at a fixed position of the window.",
      "A mask value that is not a position of the output is an error; forks write outside.",
      "AVE counts cells as AVE pooling does: padding counts, cells beyond it do not.",
      "Windows that overlap are added in TILE."};
  type.param_fields = {"unpooling_param"};
  type.inputs = {1, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const UnPooling>(p); };
  type.samples = Samples();
  const auto bad = [](const char* fields, const char* expect,
                      std::vector<std::vector<int64_t>> shapes = {{1, 2, 4, 4}}) {
    return BadSample{std::string("unpooling_param { ") + fields + " }", std::move(shapes), expect};
  };
  type.bad_samples = {
      bad("", "kernel_size is missing"),
      bad("kernel_h: 2", "must both be given"),
      bad("kernel_size: 2 kernel_h: 2 kernel_w: 2", "not both"),
      bad("kernel_size: 0", "above 0"),
      bad("kernel_size: 4294967295", "is too large"),
      bad("kernel_size: 2 stride: 0", "stride must be above 0"),
      bad("kernel_size: 2 pad: 2", "smaller than the kernel"),
      bad("kernel_size: 2", "MAX needs a mask"),
      bad("unpool: AVE kernel_size: 2", "only MAX takes a mask", {{1, 1, 2, 2}, {1, 1, 2, 2}}),
      bad("kernel_size: 2", "one shape of 4 axes", {{1, 1, 2, 2}, {1, 1, 2, 3}}),
      bad("unpool: TILE kernel_size: 2", "4 axes", {{2, 2, 2}}),
      bad("unpool: TILE kernel_size: 2 pad: 1", "without pixels", {{2, 2, 1, 3}}),
      bad("unpool: TILE kernel_size: 2 stride: 4 unpool_size: 12", "past the end"),
      bad("unpool: AVE kernel_size: 2", "without pixels", {{2, 2, 0, 3}}),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
