// Reorders between channels-last bfloat16 and other formats, by oneDNN.
#include <memory>
#include <optional>

#include "core/bfloat16.h"
#include "core/strings.h"
#include "layers/shape/reorder_implementations.h"
#include "math/format_copy.h"

namespace crema {
namespace {

struct State final : ImplementationState {
  State(const OpDesc& op, MemoryFormat from, MemoryFormat to)
      : there(op.threads, op.context.inputs[0].shape, from, to) {
    if (op.backward) back.emplace(op.threads, op.context.inputs[0].shape, to, from);
  }
  FormatCopy there;
  std::optional<FormatCopy> back;
};

class FormatReorder final : public Implementation {
 public:
  FormatReorder(MemoryFormat from, MemoryFormat to)
      : Implementation({.name = StrCat(ToString(from), " to ", ToString(to)),
                        .input_format = from,
                        .output_format = to}) {}

  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    return std::make_unique<State>(op, input_format, output_format);
  }
  void Forward(const Layer&, const ForwardArgs& args) const override {
    auto& state = *static_cast<State*>(args.implementation_state);
    state.there.Run(args.inputs[0].raw(), args.outputs[0].raw());
  }
  void Backward(const Layer&, const BackwardArgs& args) const override {
    auto& state = *static_cast<State*>(args.implementation_state);
    state.back->Run(args.output_grads[0].raw(), args.input_grads[0].raw());
  }

 private:
  Support SupportsLayer(const OpDesc& op) const override {
    const BlobSpec& input = op.context.inputs[0];
    if (!HasBFloat16()) return Support::No("needs a processor with AVX512-BF16");
    if (input.dtype != DType::kF32) return Support::No("is for f32");
    if (input.shape.axes() != 4) return Support::No("is for 4 axes");
    return {};
  }
};

}  // namespace

std::vector<ImplementationPtr> ChannelsLastReorders() {
  constexpr MemoryFormat kLast{Layout::kNHWC, DType::kBF16};
  std::vector<ImplementationPtr> reorders;
  for (const MemoryFormat other : {MemoryFormat{}, MemoryFormat{Layout::kBlocked},
                                   MemoryFormat{Layout::kBlocked, DType::kBF16}}) {
    reorders.push_back(std::make_shared<FormatReorder>(other, kLast));
    reorders.push_back(std::make_shared<FormatReorder>(kLast, other));
  }
  return reorders;
}

}  // namespace crema
