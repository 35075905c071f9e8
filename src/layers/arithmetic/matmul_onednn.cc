// Implementation "onednn" of MatMul. Its products take 0.5 to 0.9 of the time of ours unless they
// are tiny. Many products take one thread each; few run one after the other with all threads.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/memory_format.h"
#include "core/parallel_for.h"
#include "crema.pb.h"
#include "layers/arithmetic/matmul.h"
#include "layers/arithmetic/matmul_implementations.h"
#include "math/cpu/few_row_gemm.h"
#include "math/dense_product.h"

namespace crema {
namespace {

MatMulSize SizesOf(const Layer& layer, const Shape& a, const Shape& b) {
  return MergedMatMul(MatMulSizeOf(layer, a, b), layer.param().matmul_param().transpose_a());
}

MatMulSize SizesOf(const OpDesc& query) {
  return SizesOf(query.layer, query.context.inputs[0].shape, query.context.inputs[1].shape);
}

// Returns the number of products that run in parallel.
int WorkersOf(const MatMulSize& e, int threads) {
  return e.products() >= threads ? ParallelWorkers(threads, e.products(), 1) : 1;
}

DenseProductConfig ConfigOf(const OpDesc& query) {
  const MatMulParameter& param = query.layer.param().matmul_param();
  const MatMulSize e = SizesOf(query);
  return {.m = e.m,
          .n = e.n,
          .k = e.k,
          .transpose_a = param.transpose_a(),
          .transpose_b = param.transpose_b(),
          .scale = param.scale(),
          .threads = WorkersOf(e, query.threads) > 1 ? 1 : query.threads};
}

struct State final : ImplementationState {
  explicit State(const OpDesc& query) {
    const int workers = WorkersOf(SizesOf(query), query.threads);
    for (int i = 0; i < workers; ++i) products.emplace_back(ConfigOf(query));
  }
  std::vector<DenseProduct> products;  // one per worker
};

// Returns the bytes of scratch of one worker.
size_t PieceBytes(const DenseProduct& product) { return (product.Scratch() + 63) / 64 * 64; }

void Forward(const Layer& layer, const ForwardArgs& args) {
  std::vector<DenseProduct>& products = static_cast<State*>(args.implementation_state)->products;
  const MatMulSize e = SizesOf(layer, args.inputs[0].shape(), args.inputs[1].shape());
  const auto* a = args.inputs[0].data<float>();
  const auto* b = args.inputs[1].data<float>();
  auto* c = args.outputs[0].data<float>();
  const size_t piece = PieceBytes(products[0]);
  const auto workers = static_cast<int>(products.size());
  ParallelFor(workers, e.products(), 1, [&](int64_t begin, int64_t end, int w) {
    const auto worker = static_cast<size_t>(w);
    for (int64_t at = begin; at < end; ++at) {
      products[worker].Run(a + MatrixOf(e.batch, e.batch_a, at) * e.m * e.k,
                           b + MatrixOf(e.batch, e.batch_b, at) * e.k * e.n, c + at * e.m * e.n,
                           args.scratch.data() + worker * piece);
    }
  });
}

Support Supports(const OpDesc& query) {
  if (ChannelBlock() != 16) return Support::No("needs a processor with AVX-512");
  if (query.deterministic) return Support::No("its bits depend on the number of threads");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const MatMulSize e = SizesOf(query);
  constexpr int64_t kLeast = 1 << 15;
  if (e.empty() || e.k < 16 || e.m * e.n * e.k < kLeast) {
    return Support::No("calling oneDNN costs more time than it saves on matrices this small");
  }
  const MatMulParameter& param = query.layer.param().matmul_param();
  if (!param.transpose_a() && param.transpose_b() && FewRowGemmPays(e.m, e.k)) {
    return Support::No("few rows are multiplied faster without packing");
  }
  if (!DenseProduct::IsFast(ConfigOf(query))) {
    return Support::No("oneDNN has nothing fast for these products");
  }
  return {};
}

}  // namespace

ImplementationPtr OneDnnMatMulImplementation() {
  const auto scratch = [](const OpDesc& query) {
    const auto workers = static_cast<size_t>(WorkersOf(SizesOf(query), query.threads));
    return PieceBytes(DenseProduct(ConfigOf(query))) * workers;
  };
  return MakeSimpleImplementation<StatefulImplementation<State>>(
      {.name = "onednn"}, {.supports = Supports, .forward = Forward, .forward_scratch = scratch});
}

}  // namespace crema
