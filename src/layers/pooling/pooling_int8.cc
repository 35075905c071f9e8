// Pooling of blobs of bytes: implementation "int8", and "int8, plain output" for means, typically
// of whole planes at the end of a net.
#include "crema.pb.h"
#include "layers/int8_ranges.h"
#include "layers/pooling/pooling.h"
#include "math/int8_pool.h"
#include "math/scratch.h"

namespace crema {
namespace {

const Pooling& PoolingOf(const Layer& layer) { return static_cast<const Pooling&>(layer); }

Support Supports(const OpDesc& query, bool bytes_out) {
  Support support = SupportsInt8Pixels(query, 1, bytes_out ? 1 : 0);
  if (!support.yes) return support;
  if (query.info.outputs.size() > 1) return Support::No("gives no positions");
  const Pooling& pooling = PoolingOf(query.layer);
  support = pooling.SupportsBlocks(query.context.inputs[0].shape);
  if (!support.yes || pooling.IsAverage()) return support;
  const Int8Ranges& ranges = query.layer.param().int8();
  if (!bytes_out) return Support::No("is for means");
  if (SameRange(ranges.bottom(0), ranges.top(0))) return {};
  return Support::No("is for an input and output of one range");
}

Support SupportsBytes(const OpDesc& query) { return Supports(query, true); }
Support SupportsFloats(const OpDesc& query) { return Supports(query, false); }

void Forward(const Layer& layer, const ForwardArgs& args) {
  const Pooling& pooling = PoolingOf(layer);
  const Shape& x = args.inputs[0].shape();
  const PoolWindow window = pooling.PlaneWindow(x);
  const Int8Scale scale = InputScale(layer, 0);
  const int threads = args.context.threads();
  if (pooling.IsAverage()) {
    return Int8AveragePool(threads, window, pooling.ExcludesPad(), x[0], x[1], scale,
                           args.inputs[0].raw(), OutputScale(layer, 0), args.outputs[0].raw());
  }
  Int8MaxPool(threads, window, x[0], x[1], scale.is_signed, args.inputs[0].raw(),
              args.outputs[0].raw());
}

void ForwardToFloats(const Layer& layer, const ForwardArgs& args) {
  const Pooling& pooling = PoolingOf(layer);
  const Shape& x = args.inputs[0].shape();
  const Shape& y = args.outputs[0].shape();
  auto* pixels = ScratchCutter(args.scratch).Take<float>(y.count());
  const int threads = args.context.threads();
  Int8AveragePool(threads, pooling.PlaneWindow(x), pooling.ExcludesPad(), x[0], x[1],
                  InputScale(layer, 0), args.inputs[0].raw(), pixels);
  PixelsToPlain(threads, y[0], y[1], y.count(2), pixels, args.outputs[0].data<float>());
}

}  // namespace

ImplementationPtr Int8PoolingImplementation() {
  return MakeSimpleImplementation(Int8Facts("int8"),
                                  {.supports = SupportsBytes, .forward = Forward});
}

ImplementationPtr Int8PlainPoolingImplementation() {
  const auto scratch = [](const OpDesc& query) {
    return ScratchBytes<float>(query.info.outputs[0].shape.count()) + kScratchSlack;
  };
  return MakeSimpleImplementation(
      {.name = "int8, plain output", .input_format = {Layout::kNHWC, DType::kU8}},
      {.supports = SupportsFloats, .forward = ForwardToFloats, .forward_scratch = scratch});
}

}  // namespace crema
