// MarginInnerProduct and LargeMarginInnerProduct on the GPU; see margin_inner_product.cc.
#include "layers/arithmetic/margin_inner_product.h"
#include "layers/gpu_implementation.h"
#include "layers/loss/gpu_loss.cuh"
#include "math/cuda/gemm.h"

namespace crema {
namespace {

// Memory of one pass: lengths of the features and the weights, products and their gradients.
template <typename T>
struct Memory {
  Memory(const InnerProductSize& size, bool backward, ScratchCutter* cutter)
      : inputs(cutter->Take<float>(size.rows)), weights(cutter->Take<float>(size.outputs)) {
    if (!backward) return;
    products = cutter->Take<T>(size.rows * size.outputs);
    plain = cutter->Take<T>(size.rows * size.outputs);
  }
  float *inputs, *weights;
  T *products = nullptr, *plain = nullptr;
};

template <typename T>
void RowLengths(const CudaQueue& queue, int64_t rows, int64_t columns, const T* x, float* lengths) {
  ForTeams(queue, "MarginLengths", rows, [=] CREMA_HOST_DEVICE(const Team& team, int64_t r) {
    const double square = team.Sum(columns, [&](int64_t i) {
      const auto value = static_cast<double>(ToFloat(x[r * columns + i]));
      return value * value;
    });
    team.For(1, [&](int64_t) { lengths[r] = static_cast<float>(MarginLength(square)); });
  });
}

// The lengths, and products = x weight^T.
template <typename T>
void Multiply(const CudaQueue& queue, DType dtype, const InnerProductSize& size, const T* x,
              const T* weight, const Memory<T>& memory, T* products) {
  RowLengths(queue, size.rows, size.inputs, x, memory.inputs);
  RowLengths(queue, size.outputs, size.inputs, weight, memory.weights);
  CudaGemm(queue, dtype, false, true, size.rows, size.outputs, size.inputs, x, size.inputs, weight,
           size.inputs, 0, products, size.outputs);
}

// The number of the pass, which kernels read.
struct PassNumber {
  template <typename Args>
  explicit PassNumber(const Args& args)
      : place(args.queue.step_place()), fixed(args.context.step()) {}
  CREMA_HOST_DEVICE uint64_t operator()() const { return place == nullptr ? fixed : *place; }
  const uint64_t* place;
  uint64_t fixed;
};

template <typename T>
void SetScores(const CudaQueue& queue, const MarginRule& of, const InnerProductSize& size,
               const PassNumber& pass, const GpuLabels<T>& labels, const Memory<T>& memory, T* y) {
  const MarginRule rule = of;
  const PassNumber number = pass;
  const GpuLabels<T> label_of = labels;
  const int64_t outputs = size.outputs;
  const float *inputs = memory.inputs, *weights = memory.weights;
  ForElements(queue, "MarginScores", size.rows * outputs, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t n = i / outputs, j = i % outputs, label = label_of(n);
    const auto product = static_cast<double>(ToFloat(y[i]));
    double value = rule.normalizes ? product / static_cast<double>(weights[j]) : product;
    if (label == j) {
      const double c = product / (static_cast<double>(inputs[n]) * static_cast<double>(weights[j]));
      value = rule.Length(inputs[n], weights[j]) * rule.Score(c, rule.Lambda(number())).value;
    }
    y[i] = FromFloat<T>(label < 0 ? NotANumber() : static_cast<float>(value));
  });
}

template <typename T>
void SetLambda(const CudaQueue& queue, const MarginRule& of, const PassNumber& pass, T* lambda) {
  const MarginRule rule = of;
  const PassNumber number = pass;
  ForElements(queue, "MarginLambda", 1, [=] CREMA_HOST_DEVICE(int64_t) {
    lambda[0] = FromFloat<T>(static_cast<float>(rule.Lambda(number())));
  });
}

// The factors of all scores.
template <typename T>
struct ScoreFactors {
  CREMA_HOST_DEVICE MarginFactors operator()(int64_t n, int64_t j) const {
    const int64_t at = n * outputs + j;
    const double length = static_cast<double>(inputs[n]) * static_cast<double>(weights[j]);
    const double c = static_cast<double>(ToFloat(products[at])) / length;
    const MarginScore score =
        labels(n) == j ? rule.Score(c, rule.Lambda(pass())) : MarginScore{c, 1};
    return rule.Factors(static_cast<double>(ToFloat(dy[at])), c, score, inputs[n], weights[j]);
  }

  MarginRule rule;
  PassNumber pass;
  GpuLabels<T> labels;
  int64_t outputs;
  const float *inputs, *weights;
  const T *products, *dy;
};

template <typename T>
void PlainGradient(const CudaQueue& queue, int64_t count, const ScoreFactors<T>& of, T* plain) {
  const ScoreFactors<T> factors = of;
  ForElements(queue, "MarginGradient", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const MarginFactors f = factors(i / factors.outputs, i % factors.outputs);
    plain[i] = FromFloat<T>(static_cast<float>(f.of_weight));
  });
}

// sum[r] += (sum of the factors of row r) x[r], for features (`of_inputs`) or weights.
template <typename T>
void AddRows(const CudaQueue& queue, const InnerProductSize& size, bool of_inputs,
             const ScoreFactors<T>& of, const T* x, T* sum) {
  const ScoreFactors<T> factors = of;
  const int64_t columns = size.inputs, others = of_inputs ? size.outputs : size.rows;
  ForTeams(queue, "MarginRows", of_inputs ? size.rows : size.outputs,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t r) {
             const double factor = team.Sum(others, [&](int64_t k) {
               return of_inputs ? factors(r, k).of_input : factors(k, r).of_self;
             });
             team.For(columns, [&](int64_t i) {
               const int64_t at = r * columns + i;
               sum[at] =
                   FromFloat<T>(ToFloat(sum[at]) + static_cast<float>(factor) * ToFloat(x[at]));
             });
           });
}

struct GpuMarginInnerProduct {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const InnerProductSize size = MarginSize(layer, args.inputs[0].shape());
    ScratchCutter cutter(args.scratch);
    const Memory<T> memory(size, false, &cutter);
    Multiply(args.queue, args.inputs[0].dtype(), size, args.x(), args.w(), memory, args.y());
    SetScores(args.queue, MarginRule(layer), size, PassNumber(args),
              GpuLabels<T>(args.x(1), size.outputs), memory, args.y());
    if (args.y(1) != nullptr) SetLambda(args.queue, MarginRule(layer), PassNumber(args), args.y(1));
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const DType dtype = args.inputs[0].dtype();
    const InnerProductSize size = MarginSize(layer, args.inputs[0].shape());
    ScratchCutter cutter(args.scratch);
    const Memory<T> memory(size, true, &cutter);
    Multiply(args.queue, dtype, size, args.x(), args.w(), memory, memory.products);
    const ScoreFactors<T> factors{
        MarginRule(layer), PassNumber(args), GpuLabels<T>(args.x(1), size.outputs),
        size.outputs,      memory.inputs,    memory.weights,
        memory.products,   args.dy()};
    PlainGradient(args.queue, size.rows * size.outputs, factors, memory.plain);
    if (args.dx() != nullptr) {
      CudaGemm(args.queue, dtype, false, false, size.rows, size.inputs, size.outputs, memory.plain,
               size.outputs, args.w(), size.inputs, 0, args.dx(), size.inputs);
      AddRows(args.queue, size, true, factors, args.x(), args.dx());
    }
    if (args.dw() == nullptr) return;
    CudaGemm(args.queue, dtype, true, false, size.outputs, size.inputs, size.rows, memory.plain,
             size.outputs, args.x(), size.inputs, 1, args.dw(), size.inputs);
    AddRows(args.queue, size, false, factors, args.w(), args.dw());
  }

  template <bool kBackward>
  static size_t ScratchOf(const OpDesc& query) {
    const InnerProductSize size = MarginSize(query.layer, query.context.inputs[0].shape);
    return ScratchCutter::Booked(
        [&](ScratchCutter* cutter) { Memory<float>(size, kBackward, cutter); });
  }
  static constexpr auto ForwardScratch = ScratchOf<false>;
  static constexpr auto BackwardScratch = ScratchOf<true>;
};

}  // namespace

void RegisterMarginInnerProductCuda(Registry& registry) {
  registry.AddImplementation("MarginInnerProduct", CudaImplementation<GpuMarginInnerProduct>());
}

void RegisterLargeMarginInnerProductCuda(Registry& registry) {
  registry.AddImplementation("LargeMarginInnerProduct",
                             CudaImplementation<GpuMarginInnerProduct>());
}

}  // namespace crema
