// InnerProduct on bytes by oneDNN, with fixed weights (Session::FixWeights): implementation "int8"
// rounds its input itself, "int8, int8 input" takes blobs of bytes.
#include <algorithm>
#include <memory>

#include "core/strings.h"
#include "layers/arithmetic/inner_product.h"
#include "layers/arithmetic/inner_product_implementations.h"
#include "layers/int8_ranges.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kFewestWeights = 1 << 12;  // that pay for rounding inputs

const InnerProduct& LayerOf(const Layer& layer) { return static_cast<const InnerProduct&>(layer); }

PackedProductConfig ConfigOf(const OpDesc& query, bool bytes_in) {
  PackedProductConfig config = PackedProductConfigOf(query, DType::kU8);
  config.x = InputScale(query.layer, 0);
  // oneDNN makes no primitive for 0 rows, for which nothing is computed.
  config.rows = std::max<int64_t>(1, config.rows);
  if (bytes_in) {
    const Shape& x = query.context.inputs[0].shape;
    config.channels = x[1];
    config.height = x[2];
    config.width = x[3];
  }
  return config;
}

Support Supports(const OpDesc& query, bool bytes_in) {
  const Support support = bytes_in ? SupportsInt8Pixels(query, 1, 0) : ComputesInt8(query, 1, 0);
  if (!support.yes) return support;
  const Shape& x = query.context.inputs[0].shape;
  const int axis = LayerOf(query.layer).Axis(x);
  if (bytes_in && axis != 1) return Support::No("is for axis 1");
  const int64_t inputs = x.count(axis);
  const Support exact = SumsAreExact(query, inputs);
  if (!exact.yes) return exact;
  if (inputs * LayerOf(query.layer).outputs() < kFewestWeights) {
    return Support::No(StrCat("is for ", kFewestWeights, " weights or more"));
  }
  try {
    const PackedProduct product(ConfigOf(query, bytes_in));
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return {};
}

void Forward(const Layer& layer, const ForwardArgs& args, bool bytes_in) {
  if (args.outputs[0].count() == 0) return;
  PackedProduct& product = static_cast<PackedProductState*>(args.implementation_state)->product;
  const void* x = args.inputs[0].raw();
  ScratchCutter cutter(args.scratch);
  const auto own = static_cast<int64_t>(product.Scratch());
  const std::span<std::byte> scratch(cutter.Take<std::byte>(own), product.Scratch());
  if (!bytes_in) {
    const int64_t count = args.inputs[0].count();
    auto* bytes = cutter.Take<uint8_t>(count);
    FloatsToInt8(args.context.threads(), count, args.inputs[0].data<float>(), InputScale(layer, 0),
                 bytes);
    x = bytes;
  }
  const float* bias = LayerOf(layer).has_bias() ? args.parameters[1].data<float>() : nullptr;
  product.Forward(x, args.parameters[0].data<float>(), bias, args.outputs[0].data<float>(),
                  args.weights_fixed, scratch);
}

class Int8InnerProduct final : public FunctionImplementation {
 public:
  explicit Int8InnerProduct(bool bytes_in)
      : FunctionImplementation(
            {.name = bytes_in ? "int8, int8 input" : "int8",
             .input_format = bytes_in ? MemoryFormat{Layout::kNHWC, DType::kU8} : MemoryFormat{},
             .rounds_weights = true},
            {.can_fuse = CanFuseRelu}),
        bytes_in_(bytes_in) {}

  Needs NeedsOf(const OpDesc& op) const override {
    const int64_t bytes = bytes_in_ ? 0 : op.context.inputs[0].shape.count();
    const PackedProduct product(ConfigOf(op, bytes_in_));
    const auto own = static_cast<int64_t>(product.Scratch());
    return {.forward_scratch =
                ScratchBytes<std::byte>(own) + ScratchBytes<uint8_t>(bytes) + kScratchSlack,
            .state_bytes = product.PackedBytes()};
  }
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    return std::make_unique<PackedProductState>(ConfigOf(op, bytes_in_));
  }
  void Forward(const Layer& layer, const ForwardArgs& args) const override {
    crema::Forward(layer, args, bytes_in_);
  }

 private:
  Support SupportsLayer(const OpDesc& op) const override { return crema::Supports(op, bytes_in_); }

  const bool bytes_in_;
};

}  // namespace

std::vector<ImplementationPtr> Int8InnerProductImplementations() {
  return {std::make_shared<Int8InnerProduct>(false), std::make_shared<Int8InnerProduct>(true)};
}

}  // namespace crema
