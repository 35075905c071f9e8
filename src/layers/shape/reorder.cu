// Reorder on the GPU: between f32 and the formats that store halves; see reorder.cc.
#include "core/strings.h"
#include "layers/gpu_row.h"

namespace crema {
namespace {

template <typename From, typename To>
void ConvertElements(const CudaQueue& queue, int64_t count, const From* x, To* y) {
  ForElements(queue, "Reorder", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { y[i] = FromFloat<To>(ToFloat(x[i])); });
}

void Convert(const ExecContext& context, const ConstTensorView& x, const TensorView& y) {
  const CudaQueue& queue = BoundQueue(context);
  DispatchCudaFloat(x.dtype(), [&]<typename From>(From) {
    DispatchCudaFloat(y.dtype(), [&]<typename To>(To) {
      ConvertElements(queue, y.count(), Elements<From>(x), Elements<To>(y));
    });
  });
}

void ForwardRow(const Layer&, const ForwardArgs& args) {
  Convert(args.context, args.inputs[0], args.outputs[0]);
}
void BackwardRow(const Layer&, const BackwardArgs& args) {
  Convert(args.context, args.output_grads[0], args.input_grads[0]);
}

// Where nvcc does not compile there is no half precision.
Support SupportsF16(const KernelQuery& query) {
  const Support floats = SupportsCudaFloats(query);
  if (!floats.yes || IsCudaFloat(DType::kF16)) return floats;
  return Support::No("this build has no f16");
}

}  // namespace

void RegisterReorderCuda(Registry& registry) {
  constexpr auto kPlain = MemoryFormat::kPlain;
  for (const MemoryFormat halves : {MemoryFormat::kPlainBF16, MemoryFormat::kPlainF16}) {
    for (const bool there : {true, false}) {
      Kernel row = MakeCudaRow(ForwardRow, BackwardRow);
      if (halves == MemoryFormat::kPlainF16) row.supports = SupportsF16;
      row.name =
          StrCat(there ? "to " : "from ", halves == MemoryFormat::kPlainBF16 ? "bf16" : "f16");
      row.input_format = there ? kPlain : halves;
      row.output_format = there ? halves : kPlain;
      registry.AddKernel("Reorder", std::move(row));
    }
  }
}

}  // namespace crema
