// Upsample: two layers that share a name.
//   One input (YOLO ports): nearest neighbour, y[i, j] = x[i h / h', j w / w'] (integer division).
//   With a mask as second input (SegNet): unpooling, each value goes to the position in the mask.
#include <algorithm>
#include <string>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/blocked_pixels.h"
#include "layers/sampling/mask_unpool.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // fewest elements per thread

// Calls visit(o, i) for each output position and the input position that it copies.
template <typename Visit>
void ForNearest(int64_t in, int64_t out, Visit&& visit) {
  int64_t source = 0;
  int64_t rest = 0;
  for (int64_t o = 0; o < out; ++o) {
    visit(o, source);
    for (rest += in; rest >= out; rest -= out) ++source;
  }
}

class Upsample final : public Layer {
 public:
  explicit Upsample(const LayerParameter& param) : Layer(param) {
    const UpsampleParameter& p = param.upsample_param();
    CheckPair("upsample", p.has_upsample_h(), p.has_upsample_w());
    CheckPair("scale", p.has_scale_h(), p.has_scale_w());
    if (p.has_scale() && p.has_scale_h()) {
      FailField(*this, "upsample_param.scale", "give scale or scale_h and scale_w, not both");
    }
    if (p.has_upsample_h() && (p.upsample_h() == 0 || p.upsample_w() == 0)) {
      FailField(*this, "upsample_param.upsample_h", "upsample_h and upsample_w must be above 0");
    }
    if (p.scale() < 1 || (p.has_scale_h() && (p.scale_h() == 0 || p.scale_w() == 0))) {
      FailField(*this, "upsample_param.scale", "scale must be above 0");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& input = context.inputs[0].shape;
    const bool masked = context.inputs.size() > 1;
    if (input.axes() != 4) {
      FailInputs(*this,
                 StrCat("the input needs 4 axes (batch, channels, height, width), but it is ",
                        ToString(input)));
    }
    if (masked) CheckMaskShape(*this, input, context.inputs[1].shape);
    const UpsampleParameter& p = param().upsample_param();
    const int64_t height = p.has_upsample_h()
                               ? p.upsample_h()
                               : Scaled(input[2], Factor(p.has_scale_h(), p.scale_h(), masked),
                                        p.pad_out_h(), "pad_out_h");
    const int64_t width = p.has_upsample_w()
                              ? p.upsample_w()
                              : Scaled(input[3], Factor(p.has_scale_w(), p.scale_w(), masked),
                                       p.pad_out_w(), "pad_out_w");
    if (!masked && input.count(2) == 0) {
      FailInputs(*this, StrCat("planes without pixels cannot be enlarged; the input is ",
                               ToString(input)));
    }
    LayerInfo info;
    info.outputs = {{Shape{input[0], input[1], height, width}, context.inputs[0].dtype}};
    info.reach = Reach::kSample;
    info.moves_only = !masked;
    if (masked) info.backward_reads_input = {false, true};
    return info;
  }

  size_t BackwardScratch(const InferContext& context, const LayerInfo& info,
                         int threads) const override {
    if (context.inputs.size() == 1) return 0;
    return BackwardMaskUnpoolScratch(info.outputs[0].shape, threads);
  }

  void Forward(const ForwardArgs& args) const override {
    if (args.inputs.size() > 1) return ForwardMaskUnpool(*this, args);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      CopyNearest(args.context, args.inputs[0].shape(), args.outputs[0].shape(),
                  args.inputs[0].data<T>(), args.outputs[0].data<T>());
    });
  }

  // T: the type of an element of the planes.
  template <typename T>
  static void CopyNearest(const ExecContext& context, const Shape& in, const Shape& out, const T* x,
                          T* y) {
    ParallelPlanes(context, out, [&](int64_t p) {
      ForNearest(in[2], out[2], [&](int64_t row, int64_t source) {
        const T* from = x + p * in.count(2) + source * in[3];
        T* to = y + p * out.count(2) + row * out[3];
        ForNearest(in[3], out[3], [&](int64_t o, int64_t i) { to[o] = from[i]; });
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    if (args.inputs.size() > 1) return BackwardMaskUnpool(*this, args);
    const Shape& in = args.input_grads[0].shape();
    const Shape& out = args.output_grads[0].shape();
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      const T* dy = args.output_grads[0].data<T>();
      T* dx = args.input_grads[0].data<T>();
      ParallelPlanes(args.context, out, [&](int64_t p) {
        T* plane = dx + p * in.count(2);
        std::fill(plane, plane + in.count(2), T(0));
        ForNearest(in[2], out[2], [&](int64_t row, int64_t source) {
          const T* from = dy + p * out.count(2) + row * out[3];
          T* to = plane + source * in[3];
          ForNearest(in[3], out[3], [&](int64_t o, int64_t i) { to[i] += from[o]; });
        });
      });
    });
  }

 private:
  void CheckPair(const std::string& stem, bool h, bool w) const {
    if (h == w) return;
    FailField(*this, "upsample_param." + stem + (h ? "_w" : "_h"),
              StrCat(stem, "_h and ", stem, "_w must both be given"));
  }

  // SegNet's default factor is 2, that of the other form 1.
  int64_t Factor(bool given, int64_t factor, bool masked) const {
    const UpsampleParameter& p = param().upsample_param();
    if (given) return factor;
    return masked && !p.has_scale() ? 2 : p.scale();
  }

  // Returns the output size. `one_less` removes the last line, which pooling by 2 with rounding up
  // had added for an odd size.
  int64_t Scaled(int64_t size, int64_t factor, bool one_less, const char* field) const {
    if (one_less && factor != 2) {
      FailField(
          *this, std::string("upsample_param.") + field,
          StrCat(field, " leaves out the last line that a factor of 2 makes, but the factor is ",
                 factor));
    }
    return std::max<int64_t>(0, size * factor - (one_less ? 1 : 0));
  }

  template <typename Body>
  static void ParallelPlanes(const ExecContext& context, const Shape& out, Body&& body) {
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, out.count(2)));
    ParallelFor(context.threads(), out.count(0, 2), grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t p = begin; p < end; ++p) body(p);
    });
  }
};

// Implementation "blocked": nearest neighbour.
Support SupportsBlocks(const OpDesc& query) {
  if (query.context.inputs.size() > 1) return Support::No("takes no mask");
  return SupportsPixels(query);
}

void ForwardBlocked(const Layer&, const ForwardArgs& args) {
  DispatchPixels(args.inputs[0].dtype(), [&]<typename Pixel>(Pixel) {
    Upsample::CopyNearest(args.context, PixelShape(args.inputs[0].shape()),
                          PixelShape(args.outputs[0].shape()),
                          static_cast<const Pixel*>(args.inputs[0].raw()),
                          static_cast<Pixel*>(args.outputs[0].raw()));
  });
}

std::vector<LayerSample> Samples() {
  const auto sample = [](const char* name, const std::string& fields, bool masked = false) {
    LayerSample made;
    made.name = name;
    made.prototxt = "upsample_param { " + fields + " }";
    made.inputs = {{.shape = {2, 2, 3, 4}}};
    // Positions may be named twice.
    if (masked) {
      made.inputs.push_back({.shape = {2, 2, 3, 4}, .low = -1, .high = 34, .integer = true});
    }
    return made;
  };
  std::vector<LayerSample> samples = {
      sample("nearest", "scale: 2"),
      sample("nearest_3", "scale: 3"),
      sample("nearest_sides", "scale_h: 1 scale_w: 3"),
      sample("nearest_to_size", "upsample_h: 7 upsample_w: 2"),
      sample("nearest_pad_out", "scale: 2 pad_out_h: true"),
      sample("unchanged", ""),
      sample("nearest_blocks", "scale_h: 3 scale_w: 2"),
      sample("mask", "scale: 2", true),
      sample("mask_default", "", true),
      sample("mask_pad_out", "scale: 2 pad_out_h: true pad_out_w: true", true),
      sample("mask_sides", "scale_h: 3 scale_w: 1", true),
      sample("mask_size_wins", "scale: 2 upsample_h: 5 upsample_w: 9", true),
      sample("empty_batch", "scale: 2", true),
      sample("nearest_empty_batch", "scale: 2"),
  };
  samples[6].inputs[0].shape = {2, 35, 3, 2};
  for (SampleInput& input : samples[12].inputs) input.shape = {0, 2, 3, 4};
  samples[13].inputs[0].shape = {0, 2, 3, 4};
  return samples;
}

}  // namespace

void RegisterUpsample(Registry& registry) {
  LayerType type;
  type.name = "Upsample";
  type.category = "sampling";
  type.summary = "Enlarges planes: nearest neighbour, or, with a mask as second bottom, unpooling.";
  type.formula =
      "one bottom: y[n, c, i, j] = x[n, c, i H / H', j W / W'] in whole divisions; with a mask: y "
      "= 0 but y[n, c, place mask[n, c, i, j]] = x[n, c, i, j]";
  type.input_docs = {"x: N x C x H x W",
                     "mask (optional): the shape of x; row * width + column in the output, as in "
                     "the second top of Pooling MAX, or -1 for none"};
  type.output_docs = {"y: N x C x H' x W'; H' = upsample_h, or H * scale less 1 with pad_out_h"};
  type.origin = "SegNet, YOLO ports";
  type.differences = {
      "The name has two meanings; the number of bottoms decides which one applies.",
      "With a mask, scale is 2 if unset, as in SegNet; without, it is 1, as in the YOLO ports.",
      "If the mask names a position twice, the last value counts, as in SegNet; the gradient goes "
      "to that value only, in SegNet to all.",
      "A mask value that is not a position of the output is an error; SegNet may write outside."};
  type.param_fields = {"upsample_param"};
  type.inputs = {1, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Upsample>(p); };
  const ImplementationPtr blocked =
      MakeBlockedImplementation({.supports = SupportsBlocks, .forward = ForwardBlocked});
  type.implementations = {blocked, StoringBFloat16(blocked)};
  type.samples = Samples();
  const auto bad = [](const char* fields, const char* expect,
                      std::vector<std::vector<int64_t>> shapes = {{1, 2, 4, 4}}) {
    return BadSample{std::string("upsample_param { ") + fields + " }", std::move(shapes), expect};
  };
  type.bad_samples = {
      bad("scale: 0", "scale must be above 0"),
      bad("scale: -2", "scale must be above 0"),
      bad("scale_h: 2", "must both be given"),
      bad("scale_h: 2 scale_w: 0", "scale must be above 0"),
      bad("upsample_w: 2", "must both be given"),
      bad("upsample_w: 2 upsample_h: 0", "must be above 0"),
      bad("scale: 2 scale_h: 2 scale_w: 2", "not both"),
      bad("scale: 3 pad_out_h: true", "the factor is 3"),
      bad("scale: 2", "4 axes", {{2, 4, 4}}),
      bad("scale: 2", "without pixels", {{2, 1, 0, 4}}),
      bad("scale: 2", "one shape of 4 axes", {{1, 2, 4, 4}, {1, 2, 4, 3}}),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
