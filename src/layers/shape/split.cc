// Split: every output is the input and shares its memory. dx = sum of the output gradients.
#include <algorithm>
#include <span>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/parallel_for.h"
#include "crema.pb.h"
#include "graph/input_types.h"
#include "graph/registry.h"
#include "layers/part_blocks.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread

template <typename T>
inline void AddLoop(const T* a, const T* b, T* sum, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) sum[i] = a[i] + b[i];
}
CREMA_MULTIVERSION void Add(const float* a, const float* b, float* sum, int64_t begin,
                            int64_t end) {
  AddLoop(a, b, sum, begin, end);
}
CREMA_MULTIVERSION void Add(const BFloat16* a, const BFloat16* b, BFloat16* sum, int64_t begin,
                            int64_t end) {
  AddLoop(a, b, sum, begin, end);
}
void Add(const double* a, const double* b, double* sum, int64_t begin, int64_t end) {
  AddLoop(a, b, sum, begin, end);
}

// dx = the sum of the nonempty gradients; zeros without any. dx may share memory with one of them:
// each element is read before it is written, and that gradient is added first.
template <typename T>
void SumGradients(std::span<const ConstTensorView> grads, T* dx, int64_t begin, int64_t end) {
  const T* first = nullptr;
  for (const ConstTensorView& grad : grads) {
    if (!grad.empty() && (first == nullptr || grad.raw() == dx)) first = grad.data<T>();
  }
  if (first == nullptr) {
    std::fill(dx + begin, dx + end, T(0));
    return;
  }
  bool started = false;
  for (const ConstTensorView& grad : grads) {
    if (grad.empty() || grad.raw() == first) continue;
    Add(started ? dx : first, grad.data<T>(), dx, begin, end);
    started = true;
  }
  if (!started && first != dx) std::copy(first + begin, first + end, dx + begin);
}

class Split final : public Layer, public AnyInputType {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs.assign(context.output_count, context.inputs[0]);
    info.reach = Reach::kElement;
    info.moves_only = true;
    info.share = true;
    info.any_format = true;
    return info;
  }

  // Never called: the outputs share the input's memory.
  void Forward(const ForwardArgs&) const override { CREMA_CHECK(false); }

  void Backward(const BackwardArgs& args) const override {
    const TensorView& dx = args.input_grads[0];
    DispatchStored(dx.dtype(), [&]<typename T>(T) {
      ParallelFor(args.context.threads(), dx.count(), kGrain, [&](int64_t b, int64_t e, int) {
        SumGradients(args.output_grads, dx.data<T>(), b, e);
      });
    });
  }
};

}  // namespace

void RegisterSplit(Registry& registry) {
  LayerType type;
  type.name = "Split";
  type.traits = {.fits_16_bits = true};
  type.category = "shape";
  type.summary = "Passes one blob to several layers; nets get it if needed.";
  type.formula = "y_i = x";
  type.input_docs = {"x: any shape"};
  type.output_docs = {"y_i: the shape of x, in the same memory"};
  type.differences = {
      "Inserted automatically if several layers read a blob; not written into caffemodels."};
  type.param_fields = {"split_param"};
  type.outputs = {1, Arity::kAny};
  type.implementations = PartBlocksImplementations();
  type.make = [](const LayerParameter& p) { return std::make_unique<const Split>(p); };
  const SampleInput input{.shape = {2, 3, 4}};
  type.samples = {
      {.name = "two", .prototxt = "", .inputs = {input}, .outputs = 2},
      {.name = "four", .prototxt = "", .inputs = {input}, .outputs = 4},
      {.name = "one", .prototxt = "", .inputs = {input}},
      {.name = "part_blocks", .prototxt = "", .inputs = {{.shape = {2, 35, 3, 2}}}, .outputs = 2},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {7, 9001}}}, .outputs = 3},
      {.name = "scalar", .prototxt = "", .inputs = {{.shape = {}}}, .outputs = 2},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}}, .outputs = 2},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
