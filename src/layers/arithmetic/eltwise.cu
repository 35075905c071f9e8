// Eltwise on the GPU; see eltwise.cc.
#include "crema.pb.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/sum_up.cuh"

namespace crema {
namespace {

// y = start * the product of a group. Null `start` means 1; `start` may be y.
template <typename T>
void Multiply(const CudaQueue& queue, int64_t count, const Operands<T>& group, const T* start,
              T* y) {
  ForElements(queue, "EltwiseProduct", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    float product = start == nullptr ? 1 : ToFloat(start[i]);
    for (int k = 0; k < group.count; ++k) product *= ToFloat(group.x[k][i]);
    y[i] = FromFloat<T>(product);
  });
}

// y = the maximum of a group and, except for the first group, of y itself. If the first two inputs
// are equal, the second wins; later ones must be greater. `winner` may be null.
template <typename T>
void RaiseTo(const CudaQueue& queue, int64_t count, const Operands<T>& group, int first, T* y,
             int32_t* winner) {
  ForElements(queue, "EltwiseMax", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    T most = first == 0 ? group.x[0][i] : y[i];
    int won = first == 0 ? 0 : -1;
    for (int k = first == 0 ? 1 : 0; k < group.count; ++k) {
      const T value = group.x[k][i];
      const bool stays =
          first + k == 1 ? ToFloat(most) > ToFloat(value) : !(ToFloat(value) > ToFloat(most));
      if (stays) continue;
      most = value;
      won = first + k;
    }
    y[i] = most;
    if (winner != nullptr && won >= 0) winner[i] = won;
  });
}

template <typename T>
void SumGradient(const CudaQueue& queue, int64_t count, float coeff, const T* dy, T* dx) {
  ForElements(queue, "EltwiseSumGradient", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { dx[i] = FromFloat<T>(coeff * ToFloat(dy[i])); });
}

template <typename T>
void MaxGradient(const CudaQueue& queue, int64_t count, int input, const int32_t* winner,
                 const T* dy, T* dx) {
  ForElements(queue, "EltwiseMaxGradient", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    dx[i] = winner[i] == input ? dy[i] : FromFloat<T>(0);
  });
}

template <typename T>
void QuotientGradient(const CudaQueue& queue, int64_t count, const T* x, const T* y, const T* dy,
                      T* dx) {
  ForElements(queue, "EltwiseQuotientGradient", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    dx[i] = FromFloat<T>(ToFloat(y[i]) / ToFloat(x[i]) * ToFloat(dy[i]));
  });
}

float Coeff(const EltwiseParameter& param, int input) {
  return param.coeff().empty() ? 1 : param.coeff(input);
}

// Calls body(group, index of its first input) for all inputs except `skipped`, in order.
template <typename T, typename Body>
void ForGroups(const EltwiseParameter& param, std::span<const ConstTensorView> inputs, int skipped,
               const Body& body) {
  Operands<T> group{};
  int first = 0;
  for (int k = 0; k < static_cast<int>(inputs.size()); ++k) {
    if (k == skipped) continue;
    if (group.count == 0) first = k;
    group.x[group.count] = Elements<T>(inputs[static_cast<size_t>(k)]);
    group.factor[group.count++] =
        param.operation() == EltwiseParameter::SUM ? Coeff(param, k) : 1.0F;
    if (group.count < Operands<T>::kMost) continue;
    body(group, first);
    group = {};
  }
  if (group.count > 0) body(group, first);
}

struct GpuEltwise {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const EltwiseParameter& param = layer.param().eltwise_param();
    const int64_t count = args.outputs[0].count();
    T* y = args.y();
    ForGroups<T>(param, args.inputs, -1, [&](const Operands<T>& group, int first) {
      const T* start = first == 0 ? nullptr : y;
      if (param.operation() == EltwiseParameter::SUM) {
        SumUp(args.queue, count, group, start, y);
      } else if (param.operation() == EltwiseParameter::PROD) {
        Multiply(args.queue, count, group, start, y);
      } else {
        RaiseTo(args.queue, count, group, first, y, args.template Saved<int32_t>());
      }
    });
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    // Input 0 last, since its gradient may share memory with dy.
    for (size_t i = args.input_grads.size(); i-- > 0;) {
      if (args.dx(i) != nullptr) Gradient(layer.param().eltwise_param(), args, i);
    }
  }

  template <typename T>
  static void Gradient(const EltwiseParameter& param, const GpuBackward<T>& args, size_t i) {
    const auto input = static_cast<int>(i);
    const int64_t count = args.output_grads[0].count();
    const T* dy = args.dy();
    T* dx = args.dx(i);
    if (param.operation() == EltwiseParameter::SUM) {
      SumGradient(args.queue, count, Coeff(param, input), dy, dx);
    } else if (param.operation() == EltwiseParameter::MAX) {
      MaxGradient(args.queue, count, input, args.template Saved<int32_t>(), dy, dx);
    } else if (param.stable_prod_grad()) {
      const T* start = dy;
      ForGroups<T>(param, args.inputs, input, [&](const Operands<T>& group, int) {
        Multiply(args.queue, count, group, start, dx);
        start = dx;
      });
    } else {
      QuotientGradient(args.queue, count, args.x(i), args.y(), dy, dx);
    }
  }
};

}  // namespace

void RegisterEltwiseCuda(Registry& registry) {
  AddForAnyOrder(&registry, "Eltwise", CudaImplementation<GpuEltwise>());
}

}  // namespace crema
