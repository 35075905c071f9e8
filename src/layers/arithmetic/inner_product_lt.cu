// Implementation "cublaslt" of InnerProduct. cuBLASLt's epilogue for bias gradients overwrites, but
// we add, so backward is that of implementation "cublas".
#ifdef __CUDACC__
#include <algorithm>
#include <memory>
#include <optional>

#include "core/strings.h"
#include "layers/arithmetic/inner_product_cuda.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/cublas_lt.h"
#include "math/cuda/lt_product.h"

namespace crema {
namespace {

constexpr size_t kWorkspaceLine = 256;

Support Supports(const OpDesc& query) {
  const InnerProductSizes s(query.layer, query.context.inputs[0].shape, query.fused);
  if (s.rows == 0 || s.depth == 0 || s.columns == 0) return Support::No("there is nothing to do");
  if (s.relu.on && s.relu.slope != 0) return Support::No("its ReLU has no slope");
  const std::string why_not = WhyNoCublasLt();
  if (!why_not.empty()) return Support::No(StrCat("cuBLASLt cannot be used: ", why_not));
  return SupportsCudaFloats(query);
}

bool CanFuse(const OpDesc& query) { return CanFuseRelu(query) && Supports(query).yes; }

// Returns the workspace of algorithms that split the sums: some copies of the outputs in f32,
// within NVIDIA's recommendation.
size_t Workspace(const InnerProductSizes& s) {
  constexpr size_t kMost = size_t{32} << 20, kParts = 16;
  const auto outputs = static_cast<size_t>(s.rows) * static_cast<size_t>(s.columns);
  return std::min(kMost, kParts * outputs * sizeof(float)) / kWorkspaceLine * kWorkspaceLine;
}

size_t ForwardScratch(const OpDesc& query) {
  const InnerProductSizes s(query.layer, query.context.inputs[0].shape, query.fused);
  return std::max(Workspace(s) + kWorkspaceLine, CudaInnerProductForwardScratch(query));
}

// Product for the current sizes and addresses, created in the first pass, when these are known.
struct State final : ImplementationState {
  explicit State(const OpDesc& /*op*/) {}
  LtProduct& Product(const CudaQueue& queue, const LtProductConfig& config) {
    if (!product || product->config() != config) product.emplace(queue, config);
    return *product;
  }
  std::optional<LtProduct> product;
};

LtProductConfig ConfigOf(const InnerProductSizes& s, DType dtype) {
  return {.dtype = dtype,
          .transpose_b = !s.transpose,
          .m = s.rows,
          .n = s.columns,
          .k = s.depth,
          .lda = s.depth,
          .ldb = s.transpose ? s.columns : s.depth,
          .ldc = s.columns,
          .bias = s.bias,
          .relu = s.relu.on,
          .workspace = Workspace(s)};
}

void* Aligned(std::span<std::byte> scratch) {
  const auto address = reinterpret_cast<uintptr_t>(scratch.data());
  return scratch.data() + (kWorkspaceLine - address % kWorkspaceLine) % kWorkspaceLine;
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const InnerProductSizes s(layer, x.shape(), args.fused);
  if (s.PaddedColumns(x.dtype()) != 0) return CudaInnerProductForward(layer, args);
  const LtPointers pointers{.a = x.raw(),
                            .b = args.parameters[0].raw(),
                            .bias = s.bias ? args.parameters[1].raw() : nullptr,
                            .c = args.outputs[0].raw()};
  LtProductConfig config = ConfigOf(s, x.dtype());
  config.tf32 = queue.tf32();
  config.alignment = AlignmentOf(pointers);
  LtProduct& product = static_cast<State*>(args.implementation_state)->Product(queue, config);
  if (!product.found()) return CudaInnerProductForward(layer, args);
  product.Run(queue, pointers, Aligned(args.scratch));
}

}  // namespace

ImplementationPtr CublasLtInnerProductImplementation() {
  return MakeCudaImplementation<StatefulImplementation<State>>(
      Forward, CudaInnerProductBackward,
      {.supports = Supports,
       .can_fuse = CanFuse,
       .forward_scratch = ForwardScratch,
       .backward_scratch = CudaInnerProductBackwardScratch,
       .info = InfoWithRelu},
      "cublaslt");
}

}  // namespace crema
#endif
