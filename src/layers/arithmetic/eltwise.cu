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

// y = the maximum of a group and, except for the first group, of y itself. Of the first two inputs
// the second wins ties; others must be greater. `winner` may be null.
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

template <typename T>
void Combine(const CudaQueue& queue, const EltwiseParameter& param, const ForwardArgs& args) {
  const TensorView& output = args.outputs[0];
  T* y = Elements<T>(output);
  ForGroups<T>(param, args.inputs, -1, [&](const Operands<T>& group, int first) {
    const T* start = first == 0 ? nullptr : y;
    if (param.operation() == EltwiseParameter::SUM) {
      SumUp(queue, output.count(), group, start, y);
    } else if (param.operation() == EltwiseParameter::PROD) {
      Multiply(queue, output.count(), group, start, y);
    } else {
      RaiseTo(queue, output.count(), group, first, y, Elements<int32_t>(At(args.saved, 0)));
    }
  });
}

template <typename T>
void Gradient(const CudaQueue& queue, const EltwiseParameter& param, const BackwardArgs& args,
              int input) {
  const auto index = static_cast<size_t>(input);
  const int64_t count = args.output_grads[0].count();
  const T* dy = Elements<T>(args.output_grads[0]);
  T* dx = Elements<T>(args.input_grads[index]);
  if (param.operation() == EltwiseParameter::SUM) {
    SumGradient(queue, count, Coeff(param, input), dy, dx);
  } else if (param.operation() == EltwiseParameter::MAX) {
    MaxGradient(queue, count, input, Elements<int32_t>(args.saved[0]), dy, dx);
  } else if (param.stable_prod_grad()) {
    const T* start = dy;
    ForGroups<T>(param, args.inputs, input, [&](const Operands<T>& group, int) {
      Multiply(queue, count, group, start, dx);
      start = dx;
    });
  } else {
    QuotientGradient(queue, count, Elements<T>(args.inputs[index]), Elements<T>(args.outputs[0]),
                     dy, dx);
  }
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  DispatchCudaFloat(args.inputs[0].dtype(),
                    [&]<typename T>(T) { Combine<T>(queue, layer.param().eltwise_param(), args); });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  DispatchCudaFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
    // Input 0 last, since its gradient may share memory with dy.
    for (int i = static_cast<int>(args.input_grads.size()) - 1; i >= 0; --i) {
      if (args.input_grads[static_cast<size_t>(i)].empty()) continue;
      Gradient<T>(queue, layer.param().eltwise_param(), args, i);
    }
  });
}

}  // namespace

void RegisterEltwiseCuda(Registry& registry) {
  AddForAnyOrder(&registry, "Eltwise", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
