// Reduction on the GPU; see reduction.cc.
#include <cmath>
#include <limits>

#include "layers/arithmetic/reduction.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/broadcast_map.cuh"
#include "math/fast_exp.h"
#include "math/scratch.h"

namespace crema {
namespace {

using Operation = ReductionParameter::ReductionOp;

// A single thread that folds.
struct OneFolder : OneThread {
  template <typename T, typename Step, typename Join>
  CREMA_HOST_DEVICE T Reduce(int64_t count, T start, const Step& step, const Join&) const {
    for (int64_t i = 0; i < count; ++i) start = step(start, i);
    return start;
  }
};

// The value of one output, and the position in the input of MAX and MIN; -1: no element.
struct Folded {
  float value;
  int64_t at;
};

// Returns the fold of `count` elements; element(i) is one, place(i) its position in the input.
template <typename Crew, typename Element, typename Place>
CREMA_HOST_DEVICE Folded BestOf(const Crew& crew, bool max, int64_t count, const Element& element,
                                const Place& place) {
  const float kInfinity = std::numeric_limits<float>::infinity();
  const auto better = [&](int64_t a, int64_t b) {  // NaN is better than any other
    if (a < 0 || b < 0) return a < 0 ? b : a;
    const float x = element(a), y = element(b);
    if (x != x || y != y) return x != x && (y == y || a < b) ? a : b;
    if (x == y) return a < b ? a : b;
    return (x > y) == max ? a : b;
  };
  const int64_t best = crew.template Reduce<int64_t>(count, int64_t{-1}, better, better);
  if (best < 0) return {max ? -kInfinity : kInfinity, -1};
  return {element(best), place(best)};
}

template <typename Crew, typename Element>
CREMA_HOST_DEVICE float LogSumExp(const Crew& crew, int64_t count, const Element& element) {
  const float kInfinity = std::numeric_limits<float>::infinity();
  const float most = crew.Max(count, -kInfinity, element);
  if (most == kInfinity || most == -kInfinity) {  // differences of equal infinities are NaN
    return most + crew.Sum(count, [&](int64_t i) { return element(i) == element(i) ? 0 : NAN; });
  }
  return most + std::log(crew.Sum(count, [&](int64_t i) { return FastExp(element(i) - most); }));
}

template <typename Crew, typename Element>
CREMA_HOST_DEVICE float Product(const Crew& crew, int64_t count, const Element& element) {
  return crew.template Reduce<float>(
      count, 1.0F, [&](float product, int64_t i) { return product * element(i); },
      [](float a, float b) { return a * b; });
}

// All operations but those of IsSum.
template <typename Crew, typename Element, typename Place>
CREMA_HOST_DEVICE Folded Fold(const Crew& crew, Operation operation, int64_t count,
                              const Element& element, const Place& place) {
  switch (operation) {
    case ReductionParameter::MAX:
    case ReductionParameter::MIN:
      return BestOf(crew, operation == ReductionParameter::MAX, count, element, place);
    case ReductionParameter::PROD:
      return {Product(crew, count, element), -1};
    case ReductionParameter::LOG_SUM_EXP:
      return {LogSumExp(crew, count, element), -1};
    case ReductionParameter::L2:
      return {std::sqrt(crew.Sum(count, [&](int64_t i) { return element(i) * element(i); })), -1};
    default:  // LOG_SUM
      return {std::log(crew.Sum(count, element)), -1};
  }
}

bool IsSum(Operation operation) {
  return operation == ReductionParameter::SUM || operation == ReductionParameter::ASUM ||
         operation == ReductionParameter::SUMSQ || operation == ReductionParameter::MEAN;
}

// Returns true if a team should fold each output: neighbouring elements are folded together, and
// there are enough.
bool IsForTeams(const BroadcastMap& map, const Repetitions& parts) {
  const bool contiguous = map.size > 0 && map.stride[0][map.size - 1] == 0;
  return contiguous && parts.repeated.count > Team::kWarp;
}

// Calls body(crew, k, element, place) for each output k, with the elements that are folded.
template <typename T, typename Body>
void ForOutputs(const CudaQueue& queue, const BroadcastMap& map, int64_t outputs, const T* x,
                const Body& body) {
  const Repetitions parts(map, 0);
  if (IsForTeams(map, parts)) {
    return ForTeams(queue, "Fold", outputs, [=] CREMA_HOST_DEVICE(const Team& team, int64_t k) {
      body(team, k, parts, x);
    });
  }
  ForElements(queue, "Fold", outputs,
              [=] CREMA_HOST_DEVICE(int64_t k) { body(OneFolder(), k, parts, x); });
}

// Writes the value of an output, times the factor, and what backward needs.
template <typename T>
struct WriteFolded {
  template <typename Crew>
  CREMA_HOST_DEVICE void operator()(const Crew& crew, int64_t k, const Repetitions& parts,
                                    const T* x) const {
    const auto place = [&](int64_t r) { return parts.PositionOf(k, r); };
    const auto element = [&](int64_t r) { return ToFloat(x[place(r)]); };
    const Folded folded = Fold(crew, operation, count, element, place);
    crew.For(1, [&](int64_t) {
      y[k] = FromFloat<T>(factor * folded.value);
      if (values != nullptr) values[k] = FromFloat<T>(folded.value);
      if (positions != nullptr) positions[k] = static_cast<int32_t>(folded.at);
    });
  }

  Operation operation;
  int64_t count;  // elements of one output
  float factor;
  T* y;
  T* values;
  int32_t* positions;
};

// Writes the product of the elements other than 0, and the number of zeros.
template <typename T>
struct WriteProduct {
  template <typename Crew>
  CREMA_HOST_DEVICE void operator()(const Crew& crew, int64_t k, const Repetitions& parts,
                                    const T* x) const {
    const auto element = [&](int64_t r) { return ToFloat(x[parts.PositionOf(k, r)]); };
    const float product =
        Product(crew, count, [&](int64_t r) { return element(r) == 0 ? 1.0F : element(r); });
    const float zero = crew.Sum(count, [&](int64_t r) { return element(r) == 0 ? 1.0F : 0.0F; });
    crew.For(1, [&](int64_t) {
      products[k] = product;
      zeros[k] = zero;
    });
  }

  int64_t count;
  float* products;
  float* zeros;
};

template <typename T>
void Sum(const GpuForward<T>& args, const BroadcastMap& map, Operation operation, float factor) {
  const T* x = args.x();
  const bool absolute = operation == ReductionParameter::ASUM;
  const bool square = operation == ReductionParameter::SUMSQ;
  SumRepetitions(
      args.queue, map, 0, args.outputs[0].count(),
      [=] CREMA_HOST_DEVICE(int64_t i) {
        const float value = ToFloat(x[i]);
        return factor * (absolute ? std::fabs(value) : square ? value * value : value);
      },
      args.scratch, args.y());
}

// Returns the change of the output for a change of 1 of an input element. `value` is the saved one.
CREMA_HOST_DEVICE inline float Slope(Operation operation, float x, float value) {
  switch (operation) {
    case ReductionParameter::ASUM:
      return static_cast<float>((x > 0) - (x < 0));
    case ReductionParameter::SUMSQ:
      return 2 * x;
    case ReductionParameter::L2:
      return value == 0 ? 0.0F : x / value;
    case ReductionParameter::LOG_SUM:
      return std::exp(-value);
    case ReductionParameter::LOG_SUM_EXP:
      return FastExp(x - value);
    default:
      return 1;
  }
}

template <typename T>
void WriteGradient(const GpuBackward<T>& args, const BroadcastMap& map, Operation operation,
                   float factor) {
  const bool best = operation == ReductionParameter::MAX || operation == ReductionParameter::MIN;
  const int32_t* positions = best ? args.template Saved<int32_t>() : nullptr;
  const T* values = best ? nullptr : args.template Saved<T>();
  const T *x = args.x(), *dy = args.dy();  // x is null if it does not matter
  T* dx = args.dx();
  ForElements(args.queue, "FoldGradient", map.count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t k = map.PositionOf(0, i);
    float slope = factor * ToFloat(dy[k]);
    if (positions != nullptr) {
      slope = positions[k] == i ? slope : 0.0F;
    } else {
      slope *= Slope(operation, x == nullptr ? 0.0F : ToFloat(x[i]),
                     values == nullptr ? 0.0F : ToFloat(values[k]));
    }
    dx[i] = FromFloat<T>(slope);
  });
}

template <typename T>
void WriteProductGradient(const GpuBackward<T>& args, const BroadcastMap& map, float factor) {
  const int64_t outputs = args.output_grads[0].count();
  if (map.count == 0) return;
  ScratchCutter cutter(args.scratch);
  float* products = cutter.Take<float>(outputs);
  float* zeros = cutter.Take<float>(outputs);
  const T *x = args.x(), *dy = args.dy();
  T* dx = args.dx();
  ForOutputs(args.queue, map, outputs, x, WriteProduct<T>{map.count / outputs, products, zeros});
  ForElements(args.queue, "ProductGradient", map.count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t k = map.PositionOf(0, i);
    const float value = ToFloat(x[i]);
    float others = zeros[k] > 0 ? 0.0F : products[k] / value;
    if (value == 0) others = zeros[k] == 1 ? products[k] : 0.0F;
    dx[i] = FromFloat<T>(factor * others * ToFloat(dy[k]));
  });
}

struct GpuReduction {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Operation operation = layer.param().reduction_param().operation();
    const BroadcastMap map = FoldMap(layer, args.inputs[0].shape());
    const int64_t outputs = args.outputs[0].count();
    const auto factor = static_cast<float>(FoldFactor(layer, map, outputs));
    if (outputs == 0) return;
    if (IsSum(operation)) return Sum(args, map, operation, factor);
    const bool best = operation == ReductionParameter::MAX || operation == ReductionParameter::MIN;
    ForOutputs(args.queue, map, outputs, args.x(),
               WriteFolded<T>{operation, map.count / outputs, factor, args.y(),
                              best ? nullptr : args.template Saved<T>(),
                              best ? args.template Saved<int32_t>() : nullptr});
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const Operation operation = layer.param().reduction_param().operation();
    const BroadcastMap map = FoldMap(layer, args.input_grads[0].shape());
    const auto factor = static_cast<float>(FoldFactor(layer, map, args.output_grads[0].count()));
    if (operation == ReductionParameter::PROD) return WriteProductGradient(args, map, factor);
    WriteGradient(args, map, operation, factor);
  }

  static size_t ForwardScratch(const OpDesc& query) {
    return RepetitionScratch(FoldMap(query.layer, query.context.inputs[0].shape), 0);
  }
  static size_t BackwardScratch(const OpDesc& query) {
    if (query.layer.param().reduction_param().operation() != ReductionParameter::PROD) return 0;
    return 2 * ScratchBytes<float>(query.info.outputs[0].shape.count()) + kScratchSlack;
  }
};

}  // namespace

void RegisterReductionCuda(Registry& registry) {
  registry.AddImplementation("Reduction", CudaImplementation<GpuReduction>());
}

}  // namespace crema
