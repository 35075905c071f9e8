// MatMul: C = scale * op(A) op(B) over the last two axes; op transposes if requested. The axes
// before them count matrices and must be equal, or of size 1, which is repeated; missing ones are
// 1. dA = scale * dC op(B)^T and dB = scale * op(A)^T dC, or their transposes, summed over
// repetitions.
#include "layers/arithmetic/matmul.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/arithmetic/matmul_implementations.h"
#include "layers/layer_number.h"
#include "math/gemm.h"

namespace crema {
namespace {

class MatMul final : public Layer {
 public:
  explicit MatMul(const LayerParameter& param)
      : Layer(param),
        scale_(FiniteNumber(*this, param.matmul_param().scale(), "matmul_param.scale")) {}

  LayerInfo Infer(const InferContext& context) const override {
    const MatMulSize e = Sizes(context.inputs[0].shape, context.inputs[1].shape);
    std::vector<int64_t> dims(e.batch.dims().begin(), e.batch.dims().end());
    dims.push_back(e.m);
    dims.push_back(e.n);
    LayerInfo info;
    info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
    if (e.batch.axes() > 0) {
      info.reach = Reach::kSample;
      for (const BlobSpec& input : context.inputs) {
        const bool whole = input.shape.axes() < e.batch.axes() + 2 || input.shape[0] != e.batch[0];
        info.shared_inputs.push_back(whole);
      }
    } else if (!param().matmul_param().transpose_a()) {  // a row of C depends on one row of A
      info.reach = Reach::kSample;
      info.shared_inputs = {false, true};
    }
    info.backward_reads_input = {true, true};
    info.macs = info.outputs[0].shape.count() * e.k;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const MatMulSize e = Merged(Sizes(args.inputs[0].shape(), args.inputs[1].shape()));
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* from_a = args.inputs[0].data<T>();
      const T* from_b = args.inputs[1].data<T>();
      T* c = args.outputs[0].data<T>();
      if (e.k == 0) std::fill_n(c, args.outputs[0].count(), T(0));
      if (e.empty()) return;
      ForEachProduct(args.context.threads(), e, true, [&](int64_t at, int threads) {
        const T* pa = from_a + MatrixOf(e.batch, e.batch_a, at) * e.m * e.k;
        const T* pb = from_b + MatrixOf(e.batch, e.batch_b, at) * e.k * e.n;
        Gemm<T>(threads, TransposeA(), TransposeB(), e.m, e.n, e.k, T(scale_), pa, StrideA(e), pb,
                StrideB(e), T(0), c + at * e.m * e.n, e.n);
      });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const MatMulSize e = Merged(Sizes(args.inputs[0].shape(), args.inputs[1].shape()));
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* dc = args.output_grads[0].data<T>();
      for (const TensorView& grad : args.input_grads) {
        if (!grad.empty()) std::fill_n(grad.data<T>(), grad.count(), T(0));
      }
      if (e.empty()) return;
      if (const TensorView& da = args.input_grads[0]; !da.empty()) {
        const T* from_b = args.inputs[1].data<T>();
        ForEachProduct(args.context.threads(), e, e.batch_a.count() == e.products(),
                       [&](int64_t at, int threads) {
                         AddGradientA(e, threads, dc + at * e.m * e.n,
                                      from_b + MatrixOf(e.batch, e.batch_b, at) * e.k * e.n,
                                      da.data<T>() + MatrixOf(e.batch, e.batch_a, at) * e.m * e.k);
                       });
      }
      if (const TensorView& db = args.input_grads[1]; !db.empty()) {
        const T* from_a = args.inputs[0].data<T>();
        ForEachProduct(args.context.threads(), e, e.batch_b.count() == e.products(),
                       [&](int64_t at, int threads) {
                         AddGradientB(e, threads, dc + at * e.m * e.n,
                                      from_a + MatrixOf(e.batch, e.batch_a, at) * e.m * e.k,
                                      db.data<T>() + MatrixOf(e.batch, e.batch_b, at) * e.k * e.n);
                       });
      }
    });
  }

 private:
  bool TransposeA() const { return param().matmul_param().transpose_a(); }
  bool TransposeB() const { return param().matmul_param().transpose_b(); }
  int64_t StrideA(const MatMulSize& e) const { return TransposeA() ? e.m : e.k; }
  int64_t StrideB(const MatMulSize& e) const { return TransposeB() ? e.k : e.n; }

  MatMulSize Sizes(const Shape& a, const Shape& b) const { return MatMulSizeOf(*this, a, b); }

  MatMulSize Merged(const MatMulSize& e) const { return MergedMatMul(e, TransposeA()); }

  // Calls body(product, threads) for each product: many products take one thread each, few run one
  // after the other with all threads. `independent` means that no two products write to the same
  // place.
  template <typename Body>
  static void ForEachProduct(int threads, const MatMulSize& e, bool independent, Body&& body) {
    if (independent && e.products() >= threads && threads > 1) {
      ParallelFor(threads, e.products(), 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t at = begin; at < end; ++at) body(at, 1);
      });
    } else {
      for (int64_t at = 0; at < e.products(); ++at) body(at, threads);
    }
  }

  template <typename T>
  void AddGradientA(const MatMulSize& e, int threads, const T* dc, const T* b, T* da) const {
    if (TransposeA()) {
      Gemm<T>(threads, TransposeB(), true, e.k, e.m, e.n, T(scale_), b, StrideB(e), dc, e.n, T(1),
              da, e.m);
    } else {
      Gemm<T>(threads, false, !TransposeB(), e.m, e.k, e.n, T(scale_), dc, e.n, b, StrideB(e), T(1),
              da, e.k);
    }
  }
  template <typename T>
  void AddGradientB(const MatMulSize& e, int threads, const T* dc, const T* a, T* db) const {
    if (TransposeB()) {
      Gemm<T>(threads, true, TransposeA(), e.n, e.k, e.m, T(scale_), dc, e.n, a, StrideA(e), T(1),
              db, e.k);
    } else {
      Gemm<T>(threads, !TransposeA(), false, e.k, e.n, e.m, T(scale_), a, StrideA(e), dc, e.n, T(1),
              db, e.n);
    }
  }

  const float scale_;
};

}  // namespace

void RegisterMatMul(Registry& registry) {
  LayerType type;
  type.name = "MatMul";
  type.traits = {.fits_16_bits = true, .multiplies_matrices = true};
  type.category = "arithmetic";
  type.summary = "Product of two matrices, or of many pairs of them.";
  type.formula = "C = scale * op(A) op(B) over the last two axes; op swaps them where asked";
  type.input_docs = {"A: ... x M x K, or ... x K x M with transpose_a",
                     "B: ... x K x N, or ... x N x K with transpose_b; axes before the matrices "
                     "equal those of A, are 1 (repeated), or are missing"};
  type.output_docs = {"C: ... x M x N"};
  type.origin = "Crema";
  type.param_fields = {"matmul_param"};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const MatMul>(p); };
#ifdef CREMA_HAVE_ONEDNN
  type.implementations = {OneDnnMatMulImplementation()};
#endif
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> a,
                         std::vector<int64_t> b) {
    return LayerSample{.name = std::move(name),
                       .prototxt = fields.empty() ? "" : "matmul_param { " + fields + " }",
                       .inputs = {{.shape = std::move(a)}, {.shape = std::move(b)}}};
  };
  type.samples = {
      sample("matrices", "", {3, 4}, {4, 5}),
      sample("scaled_dot_product", "transpose_b: true scale: 0.5", {2, 3, 4, 5}, {2, 3, 6, 5}),
      sample("transpose_a", "transpose_a: true", {2, 4, 3}, {2, 4, 5}),
      sample("transpose_both", "transpose_a: true transpose_b: true", {4, 3}, {5, 4}),
      sample("one_b", "", {2, 3, 4, 5}, {5, 6}),
      sample("one_b_transposed_a", "transpose_a: true scale: -2", {2, 3, 4}, {3, 5}),
      sample("one_a", "", {3, 4}, {2, 2, 4, 5}),
      sample("repeated", "", {2, 1, 3, 4}, {1, 3, 4, 2}),
      sample("repeated_inner", "transpose_b: true", {3, 1, 2, 4}, {2, 5, 4}),
      sample("many", "", {17, 8, 9}, {17, 9, 7}),
      sample("large", "transpose_b: true", {2, 70, 33}, {2, 65, 33}),
      sample("no_columns", "", {3, 0}, {0, 2}),
      sample("empty_batch", "", {0, 3, 4}, {0, 4, 2}),
      sample("empty_batch_one_b", "", {0, 3, 4}, {4, 2}),
  };
  type.bad_samples = {
      {"", {{3, 4}, {5, 4}}, "cannot multiply 3x4 by 5x4: the first must have as many columns"},
      {"matmul_param { transpose_a: true }", {{3, 4}, {4, 5}}, "3x4 (transposed) by 4x5"},
      {"", {{4}, {4, 5}}, "matrices have 2 axes or more"},
      {"", {{2, 3, 4}, {3, 4, 5}}, "axes before the last two must be equal, or 1"},
      {"matmul_param { scale: nan }", {{3, 4}, {4, 5}}, "scale is nan, expected a finite number"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
