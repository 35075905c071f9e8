// Einsum on the GPU; see einsum.cc. One thread computes an element.
#include <vector>

#include "layers/arithmetic/einsum.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

template <typename T>
void Compute(const CudaQueue& queue, const Contraction& given,
             const EinsumOperands<T>& given_operands, T* y) {
  const Contraction c = given;
  const EinsumOperands<T> operands = given_operands;
  ForElements(queue, "Einsum", c.Outer(), [=] CREMA_HOST_DEVICE(int64_t i) {
    int64_t place = 0;
    const float sum = Contract<float>(
        c, operands, i, [](T value) { return ToFloat(value); }, &place);
    y[place] = FromFloat<T>(sum);
  });
}

std::vector<Shape> Shapes(std::span<const ConstTensorView> inputs) {
  std::vector<Shape> shapes;
  for (const ConstTensorView& input : inputs) shapes.push_back(input.shape());
  return shapes;
}

struct GpuEinsum {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const std::vector<Shape> shapes = Shapes(args.inputs);
    EinsumOperands<T> operands{};
    for (size_t i = 0; i < shapes.size(); ++i) operands.data[i] = args.x(i);
    Compute(args.queue, ForwardContraction(EinsumTermsOf(layer, shapes), shapes), operands,
            args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const std::vector<Shape> shapes = Shapes(args.inputs);
    const EinsumTerms terms = EinsumTermsOf(layer, shapes);
    for (size_t wanted = 0; wanted < shapes.size(); ++wanted) {
      if (args.dx(wanted) == nullptr) continue;
      ZeroElements(args.queue, shapes[wanted].count(), args.dx(wanted));  // beside a diagonal
      EinsumOperands<T> operands{};
      size_t at = 0;
      for (size_t i = 0; i < shapes.size(); ++i) {
        if (i != wanted) operands.data[at++] = args.x(i);
      }
      operands.data[at] = args.dy();
      Compute(args.queue, GradientContraction(terms, shapes, wanted), operands, args.dx(wanted));
    }
  }
};

}  // namespace

void RegisterEinsumCuda(Registry& registry) {
  registry.AddImplementation("Einsum", CudaImplementation<GpuEinsum>());
}

}  // namespace crema
