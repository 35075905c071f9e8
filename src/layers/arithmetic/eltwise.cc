// Eltwise: combines two or more blobs of one shape, element by element.
//   SUM:  y = sum_i coeff_i * x_i     dx_i = coeff_i * dy
//   PROD: y = prod_i x_i              dx_i = dy * prod_{j != i} x_j   (stable_prod_grad: false
//                                     divides instead: dx_i = dy * y / x_i)
//   MAX:  y = max_i x_i               dx_i = dy where input i won, else 0
// Ties of MAX are resolved as in Caffe: input 1 wins against input 0, later ones must be greater.
// SUM and MAX may run in place: every element is read before it is written, and the gradient of
// input 0, which may share memory with dy, is written last.
#include <algorithm>
#include <vector>

#include "core/bfloat16.h"
#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/int8_ranges.h"
#include "layers/part_blocks.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread

template <typename T>
inline void SumLoop(const T* a, Compute<T> ca, const T* b, Compute<T> cb, T* y, int64_t begin,
                    int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = ca * a[i] + cb * b[i];
}
CREMA_MULTIVERSION void WeightedSum(const float* a, float ca, const float* b, float cb, float* y,
                                    int64_t begin, int64_t end) {
  SumLoop(a, ca, b, cb, y, begin, end);
}
CREMA_MULTIVERSION void WeightedSum(const BFloat16* a, float ca, const BFloat16* b, float cb,
                                    BFloat16* y, int64_t begin, int64_t end) {
  SumLoop(a, ca, b, cb, y, begin, end);
}
void WeightedSum(const double* a, double ca, const double* b, double cb, double* y, int64_t begin,
                 int64_t end) {
  SumLoop(a, ca, b, cb, y, begin, end);
}

template <typename T>
inline void ProductLoop(const T* a, const T* b, T* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = a[i] * b[i];
}
CREMA_MULTIVERSION void Multiply(const float* a, const float* b, float* y, int64_t begin,
                                 int64_t end) {
  ProductLoop(a, b, y, begin, end);
}
CREMA_MULTIVERSION void Multiply(const BFloat16* a, const BFloat16* b, BFloat16* y, int64_t begin,
                                 int64_t end) {
  ProductLoop(a, b, y, begin, end);
}
void Multiply(const double* a, const double* b, double* y, int64_t begin, int64_t end) {
  ProductLoop(a, b, y, begin, end);
}

template <typename T>
inline void ScaleLoop(const T* x, Compute<T> factor, T* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = factor * x[i];
}
CREMA_MULTIVERSION void Scale(const float* x, float factor, float* y, int64_t begin, int64_t end) {
  ScaleLoop(x, factor, y, begin, end);
}
CREMA_MULTIVERSION void Scale(const BFloat16* x, float factor, BFloat16* y, int64_t begin,
                              int64_t end) {
  ScaleLoop(x, factor, y, begin, end);
}
void Scale(const double* x, double factor, double* y, int64_t begin, int64_t end) {
  ScaleLoop(x, factor, y, begin, end);
}

// y = max(a, b). b wins ties.
template <typename T>
inline void MaxLoop(const T* a, const T* b, T* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) y[i] = a[i] > b[i] ? a[i] : b[i];
}
CREMA_MULTIVERSION void Max(const float* a, const float* b, float* y, int64_t begin, int64_t end) {
  MaxLoop(a, b, y, begin, end);
}
CREMA_MULTIVERSION void Max(const BFloat16* a, const BFloat16* b, BFloat16* y, int64_t begin,
                            int64_t end) {
  MaxLoop(a, b, y, begin, end);
}
void Max(const double* a, const double* b, double* y, int64_t begin, int64_t end) {
  MaxLoop(a, b, y, begin, end);
}

// The same. `winner`, which may be null, gets 0 for a and 1 for b.
template <typename T>
void MaxOfTwo(const T* a, const T* b, T* y, int* winner, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end && winner != nullptr; ++i) winner[i] = a[i] > b[i] ? 0 : 1;
  Max(a, b, y, begin, end);
}

// y = max(x, y). y wins ties. `winner`, which may be null, gets `index` where x wins.
template <typename T>
void RaiseTo(const T* x, int index, T* y, int* winner, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end && winner != nullptr; ++i) {
    winner[i] = x[i] > y[i] ? index : winner[i];
  }
  Max(x, y, y, begin, end);
}

// dx = dy * the product of the inputs other than `self`.
template <typename T>
void StableProductGradient(std::span<const ConstTensorView> inputs, size_t self, const T* dy, T* dx,
                           int64_t begin, int64_t end) {
  const T* factor = dy;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (k == self) continue;
    Multiply(factor, inputs[k].data<T>(), dx, begin, end);
    factor = dx;
  }
}

class Eltwise final : public Layer {
 public:
  explicit Eltwise(const LayerParameter& param)
      : Layer(param),
        operation_(param.eltwise_param().operation()),
        coeff_(param.eltwise_param().coeff().begin(), param.eltwise_param().coeff().end()) {
    if (operation_ == EltwiseParameter::PROD && !coeff_.empty()) {
      FailField(*this, "eltwise_param.coeff",
                "coeff is for operation: SUM; a product takes none, so remove it");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const BlobSpec& first = context.inputs[0];
    const size_t count = context.inputs.size();
    for (const BlobSpec& input : context.inputs) {
      if (input.shape == first.shape) continue;
      FailInputs(*this, StrCat("all inputs must have one shape, but two of them have ",
                               ToString(first.shape), " and ", ToString(input.shape)));
    }
    if (!coeff_.empty() && coeff_.size() != count) {
      FailField(*this, "eltwise_param.coeff",
                StrCat("there are ", coeff_.size(), " values of coeff for ", count,
                       " bottoms; give one for each, or none"));
    }
    LayerInfo info;
    info.outputs = {first};
    info.reach = Reach::kElement;
    info.moves_only = operation_ == EltwiseParameter::MAX;
    info.in_place = operation_ != EltwiseParameter::PROD;
    info.any_format = true;
    if (operation_ == EltwiseParameter::MAX) info.saved = {{first.shape, DType::kI32}};
    if (operation_ == EltwiseParameter::PROD) {
      info.backward_reads_input.assign(count, true);
      info.backward_reads_output = {!StableGradient()};
    }
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchStored(args.inputs[0].dtype(), [&]<typename T>(T) {
      T* y = args.outputs[0].data<T>();
      ParallelFor(args.context.threads(), args.outputs[0].count(), kGrain,
                  [&](int64_t begin, int64_t end, int) { Combine(args, y, begin, end); });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchStored(args.output_grads[0].dtype(), [&]<typename T>(T) {
      ParallelFor(args.context.threads(), args.output_grads[0].count(), kGrain,
                  [&](int64_t begin, int64_t end, int) {
                    // Input 0 last, since its gradient may share memory with dy.
                    for (size_t i = args.input_grads.size(); i-- > 0;) {
                      if (!args.input_grads[i].empty()) Gradient<T>(args, i, begin, end);
                    }
                  });
    });
  }

 private:
  bool StableGradient() const { return param().eltwise_param().stable_prod_grad(); }

  template <typename T>
  Compute<T> Coeff(size_t input) const {
    return coeff_.empty() ? 1 : static_cast<Compute<T>>(coeff_[input]);
  }

  template <typename T>
  void Combine(const ForwardArgs& args, T* y, int64_t begin, int64_t end) const {
    const bool max = operation_ == EltwiseParameter::MAX;
    int* winner = max && !args.saved[0].empty() ? args.saved[0].data<int>() : nullptr;
    for (size_t k = 1; k < args.inputs.size(); ++k) {
      const T* first = k == 1 ? args.inputs[0].data<T>() : y;
      const T* second = args.inputs[k].data<T>();
      if (operation_ == EltwiseParameter::SUM) {
        WeightedSum(first, k == 1 ? Coeff<T>(0) : Compute<T>{1}, second, Coeff<T>(k), y, begin,
                    end);
      } else if (operation_ == EltwiseParameter::PROD) {
        Multiply(first, second, y, begin, end);
      } else if (k == 1) {
        MaxOfTwo(first, second, y, winner, begin, end);
      } else {
        RaiseTo(second, static_cast<int>(k), y, winner, begin, end);
      }
    }
  }

  template <typename T>
  void Gradient(const BackwardArgs& args, size_t input, int64_t begin, int64_t end) const {
    const T* dy = args.output_grads[0].data<T>();
    T* dx = args.input_grads[input].data<T>();
    if (operation_ == EltwiseParameter::SUM) {
      Scale(dy, Coeff<T>(input), dx, begin, end);
    } else if (operation_ == EltwiseParameter::MAX) {
      const int* winner = args.saved[0].data<int>();
      for (int64_t i = begin; i < end; ++i) {
        dx[i] = winner[i] == static_cast<int>(input) ? dy[i] : T(0);
      }
    } else if (StableGradient()) {
      StableProductGradient(args.inputs, input, dy, dx, begin, end);
    } else {
      const T* x = args.inputs[input].data<T>();
      const T* y = args.outputs[0].data<T>();
      for (int64_t i = begin; i < end; ++i) dx[i] = y[i] / x[i] * dy[i];
    }
  }

  const EltwiseParameter::EltwiseOp operation_;
  const std::vector<float> coeff_;
};

std::vector<LayerSample> Samples() {
  const SampleInput any{.shape = {2, 3, 4}};
  const SampleInput away{.shape = {2, 3, 4}, .low = 0.3, .high = 2};
  const SampleInput distinct{.shape = {2, 3, 4}, .distinct = true};
  const SampleInput large{.shape = {5, 9001}};
  return {
      {.name = "sum", .prototxt = "", .inputs = {any, any}},
      {.name = "sum_3_coeff",
       .prototxt = "eltwise_param { coeff: 0.5 coeff: -2 coeff: 0 }",
       .inputs = {any, any, any}},
      {.name = "sum_large", .prototxt = "", .inputs = {large, large, large}},
      {.name = "product", .prototxt = "eltwise_param { operation: PROD }", .inputs = {any, any}},
      {.name = "product_4",
       .prototxt = "eltwise_param { operation: PROD }",
       .inputs = {any, any, any, any}},
      {.name = "product_by_division",
       .prototxt = "eltwise_param { operation: PROD stable_prod_grad: false }",
       .inputs = {away, away, away}},
      {.name = "max",
       .prototxt = "eltwise_param { operation: MAX }",
       .inputs = {distinct, distinct}},
      {.name = "max_3_coeff_ignored",
       .prototxt = "eltwise_param { operation: MAX coeff: 2 coeff: 3 coeff: 4 }",
       .inputs = {distinct, distinct, distinct}},
      {.name = "scalars", .prototxt = "", .inputs = {{.shape = {}}, {.shape = {}}}},
      {.name = "empty_batch",
       .prototxt = "eltwise_param { operation: MAX }",
       .inputs = {{.shape = {0, 3}}, {.shape = {0, 3}}}},
  };
}

}  // namespace

void RegisterEltwise(Registry& registry) {
  LayerType type;
  type.name = "Eltwise";
  type.traits = {.fits_16_bits = true, .computes_on_bytes = true};
  type.category = "arithmetic";
  type.summary = "Sum, product or maximum of blobs of one shape.";
  type.formula = "SUM: y = sum_i coeff_i x_i; PROD: y = prod_i x_i; MAX: y = max_i x_i";
  type.input_docs = {"x_i: two or more blobs of one shape"};
  type.output_docs = {"y: that shape"};
  type.differences = {"MAX gives the gradient to the first of equal inputs."};
  type.param_fields = {"eltwise_param"};
  type.inputs = {2, Arity::kAny};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Eltwise>(p); };
  type.implementations = PartBlocksImplementations();
  type.implementations.insert(type.implementations.begin(), Int8ByFloats());
  type.samples = Samples();
  type.bad_samples = {
      {"eltwise_param { operation: PROD coeff: 1 coeff: 1 }",
       {{2}, {2}},
       "coeff is for operation: SUM"},
      {"eltwise_param { coeff: 1 }", {{2}, {2}}, "1 values of coeff for 2 bottoms"},
      {"", {{2, 3}, {2, 1}}, "2x3 and 2x1"},
      {"", {{2, 3}, {2, 3}, {2, 3, 1}}, "2x3 and 2x3x1"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
