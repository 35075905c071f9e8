// MatMul on the GPU; see matmul.cc.
#include <array>
#include <cstddef>

#include "crema.pb.h"
#include "layers/arithmetic/matmul.h"
#include "layers/gpu_implementation.h"
#include "layers/zero_gradient.cuh"
#include "math/cuda/gemm.h"

namespace crema {
namespace {

enum Operand : size_t { kA, kB, kC };

// Axes that count matrices, and the step of each operand along them, in matrices: 0 if it is
// repeated. Axes that are contiguous in all three operands are merged.
struct BatchAxes {
  struct Axis {
    int64_t length = 1;
    std::array<int64_t, 3> step{};
  };

  explicit BatchAxes(const MatMulSize& e) {
    for (int i = 0; i < e.batch.axes(); ++i) {
      if (e.batch[i] == 1) continue;
      Add({e.batch[i], {Step(e, e.batch_a, i), Step(e, e.batch_b, i), e.batch.count(i + 1)}});
    }
  }

  std::array<Axis, Shape::kMaxAxes> axes{};
  size_t size = 0;

 private:
  static int64_t Step(const MatMulSize& e, const Shape& own, int axis) {
    const int mine = own.axes() - e.batch.axes() + axis;
    return mine < 0 || own[mine] == 1 ? 0 : own.count(mine + 1);
  }

  void Add(const Axis& axis) {
    if (size > 0) {
      Axis& last = axes[size - 1];
      bool runs_on = true;
      for (size_t r = 0; r < 3; ++r) runs_on &= last.step[r] == axis.length * axis.step[r];
      if (runs_on) {
        last = {last.length * axis.length, axis.step};
        return;
      }
    }
    axes[size++] = axis;
  }
};

// A factor or the result of a product: its operand, and its first matrix.
struct Matrices {
  Operand operand;
  std::byte* data;
  int64_t stride;    // between rows
  int64_t elements;  // per matrix
  bool transposed = false;
};

// target = scale * left * right for each product, summed if the target is repeated.
struct Product {
  Matrices left, right, target;
  int64_t m, n, k;
  float scale;
};

// Returns the axis whose products are one call: the longest along which the target is not repeated.
size_t AxisOfCalls(const BatchAxes& batch, Operand target) {
  size_t best = batch.size;
  for (size_t a = 0; a < batch.size; ++a) {
    if (batch.axes[a].step[target] == 0) continue;
    if (best == batch.size || batch.axes[a].length > batch.axes[best].length) best = a;
  }
  return best;
}

void Multiply(const CudaQueue& queue, DType dtype, const BatchAxes& batch, const Product& p) {
  const size_t inner = AxisOfCalls(batch, p.target.operand);
  const BatchAxes::Axis whole = inner < batch.size ? batch.axes[inner] : BatchAxes::Axis{};
  int64_t calls = 1;
  for (size_t a = 0; a < batch.size; ++a) calls *= a == inner ? 1 : batch.axes[a].length;
  const auto stride = [&](const Matrices& x) { return whole.step[x.operand] * x.elements; };
  const CudaBatch strides{whole.length, stride(p.left), stride(p.right), stride(p.target), p.scale};
  for (int64_t call = 0; call < calls; ++call) {
    std::array<int64_t, 3> at{};
    bool again = false;  // the target has been written
    int64_t rest = call;
    for (size_t a = batch.size; a-- > 0;) {
      const BatchAxes::Axis& axis = batch.axes[a];
      if (a == inner) continue;
      const int64_t place = rest % axis.length;
      rest /= axis.length;
      for (size_t r = 0; r < 3; ++r) at[r] += place * axis.step[r];
      again |= place > 0 && axis.step[p.target.operand] == 0;
    }
    const auto first = [&](const Matrices& x) {
      return x.data + at[x.operand] * x.elements * static_cast<int64_t>(SizeOf(dtype));
    };
    CudaGemmBatched(queue, dtype, strides, p.left.transposed, p.right.transposed, p.m, p.n, p.k,
                    first(p.left), p.left.stride, first(p.right), p.right.stride, again ? 1 : 0,
                    first(p.target), p.target.stride);
  }
}

// The products of one layer.
struct Plan {
  Plan(const Layer& layer, const Shape& a, const Shape& b)
      : transpose_a(layer.param().matmul_param().transpose_a()),
        transpose_b(layer.param().matmul_param().transpose_b()),
        scale(layer.param().matmul_param().scale()),
        e(MergedMatMul(MatMulSizeOf(layer, a, b), transpose_a)),
        batch(e) {}

  Matrices A(const void* data) const {
    return {kA, Bytes(data), transpose_a ? e.m : e.k, e.m * e.k, transpose_a};
  }
  Matrices B(const void* data) const {
    return {kB, Bytes(data), transpose_b ? e.k : e.n, e.k * e.n, transpose_b};
  }
  Matrices C(const void* data) const { return {kC, Bytes(data), e.n, e.m * e.n}; }

  // Removes const; only targets are written.
  static std::byte* Bytes(const void* data) {
    return static_cast<std::byte*>(const_cast<void*>(data));
  }
  static Matrices Transposed(Matrices x) {
    x.transposed = !x.transposed;
    return x;
  }

  Product GradientA(const void* dc, const void* b, const void* da) const {
    if (transpose_a) return {B(b), Transposed(C(dc)), A(da), e.k, e.m, e.n, scale};
    return {C(dc), Transposed(B(b)), A(da), e.m, e.k, e.n, scale};
  }
  Product GradientB(const void* dc, const void* a, const void* db) const {
    if (transpose_b) return {Transposed(C(dc)), A(a), B(db), e.n, e.k, e.m, scale};
    return {Transposed(A(a)), C(dc), B(db), e.k, e.n, e.m, scale};
  }

  bool transpose_a, transpose_b;
  float scale;
  MatMulSize e;
  BatchAxes batch;
};

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& a = args.inputs[0];
  const ConstTensorView& b = args.inputs[1];
  const TensorView& c = args.outputs[0];
  const Plan plan(layer, a.shape(), b.shape());
  if (plan.e.empty()) return ZeroCuda(queue, c);
  Multiply(queue, a.dtype(), plan.batch,
           {plan.A(a.raw()), plan.B(b.raw()), plan.C(c.raw()), plan.e.m, plan.e.n, plan.e.k,
            plan.scale});
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& a = args.inputs[0];
  const ConstTensorView& b = args.inputs[1];
  const void* dc = args.output_grads[0].raw();
  const Plan plan(layer, a.shape(), b.shape());
  for (size_t i = 0; i < 2; ++i) {
    const TensorView& grad = args.input_grads[i];
    if (grad.empty()) continue;
    if (plan.e.empty()) {
      ZeroCuda(queue, grad);
    } else {
      Multiply(queue, a.dtype(), plan.batch,
               i == 0 ? plan.GradientA(dc, b.raw(), grad.raw())
                      : plan.GradientB(dc, a.raw(), grad.raw()));
    }
  }
}

}  // namespace

void RegisterMatMulCuda(Registry& registry) {
  registry.AddImplementation("MatMul",
                             MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu, {}, "cublas"));
}

}  // namespace crema
