// Reorder on the GPU: between its formats, which are row-major order or channels last, in f32 or
// 16-bit types; see reorder.cc.
#include <memory>

#include "core/strings.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/transpose.cuh"

namespace crema {
namespace {

template <typename From, typename To>
void ConvertElements(const CudaQueue& queue, int64_t count, const From* x, To* y) {
  SetElements(queue, "Reorder", count, y,
              [=] CREMA_HOST_DEVICE(int64_t i) { return ToFloat(x[i]); });
}

void Convert(const ExecContext& context, const ConstTensorView& x, Layout from, const TensorView& y,
             Layout to) {
  const CudaQueue& queue = BoundQueue(context);
  const Shape& shape = y.shape();
  const int64_t space = SpaceOf(shape), channels = shape.axes() > 1 ? shape[1] : 1;
  const bool transposes = from != to && space > 1 && channels > 1;
  const Matrices m = to == Layout::kNHWC ? Matrices{shape[0], channels, space}
                                         : Matrices{shape[0], space, channels};
  DispatchCudaFloat(x.dtype(), [&]<typename From>(From) {
    DispatchCudaFloat(y.dtype(), [&]<typename To>(To) {
      if (transposes) return Transpose(queue, m, Elements<From>(x), Elements<To>(y));
      ConvertElements(queue, y.count(), Elements<From>(x), Elements<To>(y));
    });
  });
}

class Reordering final : public Implementation {
 public:
  Reordering(MemoryFormat from, MemoryFormat to)
      : Implementation({.name = StrCat(ToString(from), " to ", ToString(to)),
                        .device = DeviceType::kCuda,
                        .input_format = from,
                        .output_format = to}) {}

  void Forward(const Layer&, const ForwardArgs& args) const override {
    Convert(args.context, args.inputs[0], input_format.layout, args.outputs[0],
            output_format.layout);
  }
  void Backward(const Layer&, const BackwardArgs& args) const override {
    Convert(args.context, args.output_grads[0], output_format.layout, args.input_grads[0],
            input_format.layout);
  }

 private:
  // Builds without nvcc have no half precision.
  Support SupportsLayer(const OpDesc& op) const override {
    const bool halves = input_format.type == DType::kF16 || output_format.type == DType::kF16;
    const Support floats = SupportsCudaFloats(op);
    if (!floats.yes || !halves || IsCudaFloat(DType::kF16)) return floats;
    return Support::No("this build has no f16");
  }
};

}  // namespace

void RegisterReorderCuda(Registry& registry) {
  constexpr MemoryFormat kFormats[] = {{},
                                       {.type = DType::kBF16},
                                       {.type = DType::kF16},
                                       {Layout::kNHWC},
                                       {Layout::kNHWC, DType::kBF16},
                                       {Layout::kNHWC, DType::kF16}};
  for (const MemoryFormat from : kFormats) {
    for (const MemoryFormat to : kFormats) {
      if (from != to) registry.AddImplementation("Reorder", std::make_shared<Reordering>(from, to));
    }
  }
}

}  // namespace crema
