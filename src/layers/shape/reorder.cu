// Reorder on the GPU: between the formats of GPUs, in row-major order or channels last, of f32 or
// of halves; see reorder.cc.
#include <array>
#include <string>

#include "core/strings.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/transpose.cuh"

namespace crema {
namespace {

template <typename From, typename To>
void ConvertElements(const CudaQueue& queue, int64_t count, const From* x, To* y) {
  ForElements(queue, "Reorder", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { y[i] = FromFloat<To>(ToFloat(x[i])); });
}

void Convert(const ExecContext& context, const ConstTensorView& x, bool x_last, const TensorView& y,
             bool y_last) {
  const CudaQueue& queue = BoundQueue(context);
  const Shape& shape = y.shape();
  const int64_t space = SpaceOf(shape), channels = shape.axes() > 1 ? shape[1] : 1;
  const bool transposes = x_last != y_last && space > 1 && channels > 1;
  const Matrices m =
      y_last ? Matrices{shape[0], channels, space} : Matrices{shape[0], space, channels};
  DispatchCudaFloat(x.dtype(), [&]<typename From>(From) {
    DispatchCudaFloat(y.dtype(), [&]<typename To>(To) {
      if (transposes) return Transpose(queue, m, Elements<From>(x), Elements<To>(y));
      ConvertElements(queue, y.count(), Elements<From>(x), Elements<To>(y));
    });
  });
}

// Where nvcc does not compile there is no half precision.
Support SupportsF16(const OpDesc& query) {
  const Support floats = SupportsCudaFloats(query);
  if (!floats.yes || IsCudaFloat(DType::kF16)) return floats;
  return Support::No("this build has no f16");
}

std::string NameOf(MemoryFormat from, MemoryFormat to) {
  return StrCat(ToString(from), " to ", ToString(to));
}

Implementation MakeImplementation(MemoryFormat from, MemoryFormat to) {
  const bool from_last = IsChannelsLast(from), to_last = IsChannelsLast(to);
  Implementation implementation = MakeCudaImplementation(nullptr, nullptr);
  implementation.name = NameOf(from, to);
  implementation.forward = [=](const Layer&, const ForwardArgs& args) {
    Convert(args.context, args.inputs[0], from_last, args.outputs[0], to_last);
  };
  implementation.backward = [=](const Layer&, const BackwardArgs& args) {
    Convert(args.context, args.output_grads[0], to_last, args.input_grads[0], from_last);
  };
  for (const MemoryFormat format : {from, to}) {
    if (RowMajor(format) == MemoryFormat::kPlainF16) implementation.supports = SupportsF16;
  }
  implementation.input_format = from;
  implementation.output_format = to;
  return implementation;
}

}  // namespace

void RegisterReorderCuda(Registry& registry) {
  constexpr std::array kFormats{
      MemoryFormat::kPlain,        MemoryFormat::kPlainBF16,        MemoryFormat::kPlainF16,
      MemoryFormat::kChannelsLast, MemoryFormat::kChannelsLastBF16, MemoryFormat::kChannelsLastF16};
  for (const MemoryFormat from : kFormats) {
    for (const MemoryFormat to : kFormats) {
      if (from != to) registry.AddImplementation("Reorder", MakeImplementation(from, to));
    }
  }
}

}  // namespace crema
