// Element-wise layers (elementwise.h) on the GPU.
#include "crema.pb.h"
#include "layers/activation/formulas.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"

namespace crema {
namespace {

template <typename Formula, typename T>
void Forward(const CudaQueue& queue, Formula formula, int64_t count, const T* x, T* y) {
  ForElements(queue, "ElementwiseForward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    y[i] = FromFloat<T>(formula.Value(ToFloat(x[i])));
  });
}

template <typename Formula, typename T>
void Backward(const CudaQueue& queue, Formula formula, int64_t count, const T* x_or_y, const T* dy,
              T* dx) {
  ForElements(queue, "ElementwiseBackward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    dx[i] = FromFloat<T>(formula.Gradient(ToFloat(x_or_y[i]), ToFloat(dy[i])));
  });
}

template <typename Formula>
void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const ConstTensorView& x = args.inputs[0];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    Forward(BoundQueue(args.context), Formula(layer), x.count(), Elements<T>(x),
            Elements<T>(args.outputs[0]));
  });
}

template <typename Formula>
void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  if (args.input_grads[0].empty()) return;
  const Formula formula(layer);
  const ConstTensorView& read = formula.reads_output() ? args.outputs[0] : args.inputs[0];
  DispatchCudaFloat(read.dtype(), [&]<typename T>(T) {
    Backward(BoundQueue(args.context), formula, read.count(), Elements<T>(read),
             Elements<T>(args.output_grads[0]), Elements<T>(args.input_grads[0]));
  });
}

template <typename Formula>
void AddElementwise(Registry& registry, std::string_view type) {
  AddForAnyOrder(&registry, type,
                 MakeCudaImplementation(ForwardOnGpu<Formula>, BackwardOnGpu<Formula>));
}

bool TakesTanh(const Layer& layer) {
  return layer.param().gelu_param().approximation() == GELUParameter::TANH;
}

void ForwardGelu(const Layer& layer, const ForwardArgs& args) {
  (TakesTanh(layer) ? ForwardOnGpu<GeluFormula<true>> : ForwardOnGpu<GeluFormula<false>>)(layer,
                                                                                          args);
}

void BackwardGelu(const Layer& layer, const BackwardArgs& args) {
  (TakesTanh(layer) ? BackwardOnGpu<GeluFormula<true>> : BackwardOnGpu<GeluFormula<false>>)(layer,
                                                                                            args);
}

}  // namespace

void RegisterElementwiseCuda(Registry& registry) {
  AddElementwise<AbsValFormula>(registry, "AbsVal");
  AddElementwise<BnllFormula>(registry, "BNLL");
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
  AddForAnyOrder(&registry, "GELU", MakeCudaImplementation(ForwardGelu, BackwardGelu));
}

}  // namespace crema
