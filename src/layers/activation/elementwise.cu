// Element-wise layers (elementwise.h) on the GPU.
#include "crema.pb.h"
#include "layers/activation/formulas.h"
#include "layers/activation/unary_formula.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"

namespace crema {
namespace {

template <typename Formula>
struct GpuElementwise {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Formula formula(layer);
    const T* x = args.x();
    SetElements(args.queue, "ElementwiseForward", args.inputs[0].count(), args.y(),
                [=] CREMA_HOST_DEVICE(int64_t i) { return formula.Value(ToFloat(x[i])); });
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const Formula formula(layer);
    const T* x_or_y = formula.reads_output() ? args.y() : args.x();
    const T* dy = args.dy();
    SetElements(args.queue, "ElementwiseBackward", args.output_grads[0].count(), args.dx(),
                [=] CREMA_HOST_DEVICE(int64_t i) {
                  return formula.Gradient(ToFloat(x_or_y[i]), ToFloat(dy[i]));
                });
  }
};

struct GpuGelu {
  template <typename Args>
  static void Forward(const Layer& layer, const Args& args) {
    if (TakesTanh(layer)) return GpuElementwise<GeluFormula<true>>::Forward(layer, args);
    GpuElementwise<GeluFormula<false>>::Forward(layer, args);
  }
  template <typename Args>
  static void Backward(const Layer& layer, const Args& args) {
    if (TakesTanh(layer)) return GpuElementwise<GeluFormula<true>>::Backward(layer, args);
    GpuElementwise<GeluFormula<false>>::Backward(layer, args);
  }

  static bool TakesTanh(const Layer& layer) {
    return layer.param().gelu_param().approximation() == GELUParameter::TANH;
  }
};

template <typename Formula>
void AddElementwise(Registry& registry, std::string_view type) {
  AddForAnyOrder(&registry, type, CudaImplementation<GpuElementwise<Formula>>());
}

}  // namespace

void RegisterElementwiseCuda(Registry& registry) {
  AddElementwise<AbsValFormula>(registry, "AbsVal");
  AddElementwise<BnllFormula>(registry, "BNLL");
  registry.AddImplementation("CheckWhole", CudaImplementation<GpuElementwise<CheckWholeFormula>>());
  AddElementwise<ClipFormula>(registry, "Clip");
  AddElementwise<EluFormula>(registry, "ELU");
  AddElementwise<ExpFormula>(registry, "Exp");
  AddElementwise<HardSigmoidFormula>(registry, "HardSigmoid");
  AddElementwise<HardSigmoidFormula>(registry, "HSigmoid");
  AddElementwise<HardSwishFormula>(registry, "HardSwish");
  AddElementwise<HardSwishFormula>(registry, "HSwish");
  AddElementwise<LogFormula>(registry, "Log");
  AddElementwise<MishFormula>(registry, "Mish");
  AddElementwise<ReluFormula>(registry, "ReLU");
  AddElementwise<Relu6Formula>(registry, "ReLU6");
  AddElementwise<SigmoidFormula>(registry, "Sigmoid");
  AddElementwise<SiluFormula>(registry, "SiLU");
  AddElementwise<SwishFormula>(registry, "Swish");
  AddElementwise<TanHFormula>(registry, "TanH");
  AddElementwise<UnaryFormula>(registry, "Unary");
  AddForAnyOrder(&registry, "GELU", CudaImplementation<GpuGelu>());
}

}  // namespace crema
