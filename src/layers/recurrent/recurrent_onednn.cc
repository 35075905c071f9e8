// Implementation "onednn" of RNN, LSTM and GRU: the native layer with the products of steps by
// oneDNN. The weights of the hidden state are packed once for each pass, or once if they are fixed;
// Gemm packs them in each step. oneDNN's own sequences all begin at the first step, and keep
// nothing for Crema's backward passes.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "core/memory_format.h"
#include "crema.pb.h"
#include "layers/recurrent/recurrent_implementations.h"
#include "layers/recurrent/recurrent_layer.h"
#include "math/packed_product.h"

namespace crema {
namespace {

const RecurrentLayer& LayerOf(const Layer& layer) {
  return static_cast<const RecurrentLayer&>(layer);
}

PackedProductConfig InputConfig(const OpDesc& query) {
  const RecurrentLayer& layer = LayerOf(query.layer);
  const SequenceSize e = layer.SizesOf(query.context);
  return {.rows = e.rows(),
          .channels = e.inputs,
          .outputs = layer.cell().gates * e.hidden,
          .add = true,
          .threads = query.threads};
}

PackedProductConfig HiddenConfig(const OpDesc& query) {
  const RecurrentLayer& layer = LayerOf(query.layer);
  const SequenceSize e = layer.SizesOf(query.context);
  return {.rows = e.streams,
          .channels = e.hidden,
          .outputs = layer.cell().gates * e.hidden,
          .add = true,
          .threads = query.threads};
}

// For GRU the gradient is not a single product.
bool HasGradient(const OpDesc& query) {
  return query.backward && LayerOf(query.layer).cell().gates != 3;
}

PackedProductConfig GradientConfig(const OpDesc& query) {
  const PackedProductConfig forward = HiddenConfig(query);
  return {.rows = forward.rows,
          .channels = forward.outputs,
          .outputs = forward.channels,
          .transposed = true,
          .threads = forward.threads};
}

class Products final : public SequenceProducts {
 public:
  explicit Products(const OpDesc& query)
      : input_(InputConfig(query)), hidden_(HiddenConfig(query)) {
    if (HasGradient(query)) gradient_.emplace(GradientConfig(query));
  }

  size_t ForwardScratch() const { return std::max(input_.Scratch(), hidden_.Scratch()); }
  size_t BackwardScratch() const { return gradient_ ? gradient_->Scratch() : 0; }
  size_t PackedBytes() const {
    return input_.PackedBytes() + hidden_.PackedBytes() +
           (gradient_ ? gradient_->PackedBytes() : 0);
  }

  void Begin(const float* input_weight, const float* hidden_weight, bool fixed,
             std::span<std::byte> scratch) {
    input_weight_ = input_weight;
    hidden_weight_ = hidden_weight;
    scratch_ = scratch;
    // Those of the last pass may have changed since, even if they are fixed from now on.
    if (std::exchange(fixed_, fixed) && fixed) return;
    input_.ForgetWeights();
    hidden_.ForgetWeights();
  }
  void BeginBackward(const float* hidden_weight, std::span<std::byte> scratch) {
    hidden_weight_ = hidden_weight;
    scratch_ = scratch;
    if (gradient_) gradient_->ForgetWeights();
  }
  // Packing them takes as long as it does within Gemm.
  bool AddInput(const float* x, float* z) override {
    if (!fixed_) return false;
    input_.Forward(x, input_weight_, nullptr, z, true, scratch_);
    return true;
  }
  void AddHidden(const float* h, float* z) override {
    hidden_.Forward(h, hidden_weight_, nullptr, z, true, scratch_);
  }
  void HiddenGradient(const float* dz, float* dh) override {
    CREMA_CHECK(gradient_.has_value());
    gradient_->Forward(dz, hidden_weight_, nullptr, dh, true, scratch_);
  }

 private:
  PackedProduct input_, hidden_;
  std::optional<PackedProduct> gradient_;
  const float* input_weight_ = nullptr;
  const float* hidden_weight_ = nullptr;
  bool fixed_ = false;
  std::span<std::byte> scratch_;
};

// The scratch of the native layer comes first.
size_t OnLines(size_t bytes) { return (bytes + 63) / 64 * 64; }
size_t NativeForward(const OpDesc& query) {
  return OnLines(query.layer.ForwardScratch(query.context, query.info, query.threads));
}
size_t NativeBackward(const OpDesc& query) {
  return OnLines(query.layer.BackwardScratch(query.context, query.info, query.threads));
}

struct State final : ImplementationState {
  explicit State(const OpDesc& query)
      : native_forward(NativeForward(query)), native_backward(NativeBackward(query)) {
    for (int d = 0; d < LayerOf(query.layer).Directions(); ++d) {
      products.push_back(std::make_unique<Products>(query));
    }
  }
  const size_t native_forward, native_backward;     // bytes
  std::vector<std::unique_ptr<Products>> products;  // by direction
};

// Returns the arguments of one direction.
template <typename Args>
ForwardPass<float> PassOf(const RecurrentLayer& layer, const Args& args, size_t direction) {
  ForwardPass<float> pass;
  layer.FillPass<float>(args, layer.BottomsOf(args.inputs.size()), static_cast<int>(direction),
                        &pass);
  return pass;
}

void Forward(const Layer& any_layer, const ForwardArgs& args) {
  const RecurrentLayer& layer = LayerOf(any_layer);
  auto& state = *static_cast<State*>(args.implementation_state);
  std::array<SequenceProducts*, 2> products{};
  for (size_t d = 0; d < state.products.size(); ++d) {
    const ForwardPass<float> pass = PassOf(layer, args, d);
    state.products[d]->Begin(pass.Parameter(RecurrentBlob::kInput),
                             pass.Parameter(RecurrentBlob::kHidden), args.weights_fixed,
                             args.scratch.subspan(state.native_forward));
    products[d] = state.products[d].get();
  }
  layer.ForwardWith(args, products);
}

void Backward(const Layer& any_layer, const BackwardArgs& args) {
  const RecurrentLayer& layer = LayerOf(any_layer);
  auto& state = *static_cast<State*>(args.implementation_state);
  std::array<SequenceProducts*, 2> products{};
  for (size_t d = 0; d < state.products.size(); ++d) {
    state.products[d]->BeginBackward(PassOf(layer, args, d).Parameter(RecurrentBlob::kHidden),
                                     args.scratch.subspan(state.native_backward));
    products[d] = state.products[d].get();
  }
  layer.BackwardWith(args, products);
}

Support Supports(const OpDesc& query) {
  if (ChannelBlock() != 16) return Support::No("needs a processor with AVX-512");
  if (query.deterministic) return Support::No("its bits depend on the number of threads");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const RecurrentLayer& layer = LayerOf(query.layer);
  const SequenceSize e = layer.SizesOf(query.context);
  if (e.rows() == 0) return Support::No("there are no steps or streams");
  if (layer.cell().gates == 3 && !layer.param().recurrent_param().reset_after()) {
    return Support::No("is for reset_after: true");
  }
  constexpr int64_t kLeastWeights = 1 << 13;
  if (layer.cell().gates * e.hidden * e.hidden < kLeastWeights) {
    return Support::No("calling oneDNN costs more time than it saves on matrices this small");
  }
  if (query.backward && e.steps < (e.streams < 8 ? 32 : 8)) {
    return Support::No("packing the changed weights takes longer than what so few steps gain");
  }
  return {};
}

}  // namespace

ImplementationPtr OneDnnRecurrentImplementation() {
  const auto forward_scratch = [](const OpDesc& query) {
    return NativeForward(query) + Products(query).ForwardScratch();
  };
  const auto backward_scratch = [](const OpDesc& query) {
    return NativeBackward(query) + Products(query).BackwardScratch();
  };
  const auto state_bytes = [](const OpDesc& query) {
    return Products(query).PackedBytes() * static_cast<size_t>(LayerOf(query.layer).Directions());
  };
  return MakeSimpleImplementation<StatefulImplementation<State>>(
      {.name = "onednn"}, {.supports = Supports,
                           .forward = Forward,
                           .backward = Backward,
                           .forward_scratch = forward_scratch,
                           .backward_scratch = backward_scratch,
                           .state_bytes = state_bytes});
}

}  // namespace crema
