// Reductions.
#include <algorithm>
#include <numeric>

#include "onnx/import_blocks.h"
#include "onnx/import_convert.h"
#include "onnx/import_fold.h"

namespace crema {
namespace {

bool IsSpatialMean(const OnnxBlob& x, const Dims& axes, bool keep,
                   ReductionParameter::ReductionOp operation) {
  return operation == ReductionParameter::MEAN && keep && x.shape.axes() == 4 &&
         IsFloatType(x.type) && axes == Dims{2, 3} && x.shape.count() > 0;
}

// Reduces over no axes: each element by itself.
OnnxBlob ReduceAlone(NodeImport& node, const OnnxBlob& x,
                     ReductionParameter::ReductionOp operation) {
  switch (operation) {
    case ReductionParameter::ASUM:
    case ReductionParameter::L2:
      return node.Add("AbsVal", {x});
    case ReductionParameter::SUMSQ:
      return node.Add("Power", {x},
                      [](LayerParameter* layer) { layer->mutable_power_param()->set_power(2); });
    case ReductionParameter::LOG_SUM:
      return node.Add("Log", {x});
    default:
      return x;
  }
}

template <ReductionParameter::ReductionOp kOperation>
void ConvertReduce(NodeImport& node) {
  const OnnxBlob x = node.In(0);
  Dims axes = node.IntsOf("axes", 1);
  if (axes.empty() && node.Int("noop_with_empty_axes", 0) != 0) {
    return node.Output(0, ReduceAlone(node, x, kOperation));
  }
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(x.shape.axes()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  axes = CanonicalAxes(node, axes, static_cast<size_t>(x.shape.axes()));
  std::ranges::sort(axes);
  const bool keep = node.Int("keepdims", 1) != 0;
  if (IsSpatialMean(x, axes, keep, kOperation)) {
    return node.Output(0, node.Add("Pooling", {x}, [](LayerParameter* layer) {
      layer->mutable_pooling_param()->set_pool(PoolingParameter::AVE);
      layer->mutable_pooling_param()->set_global_pooling(true);
    }));
  }
  const bool whole = !IsFloatType(x.type);
  const bool divides = whole && kOperation == ReductionParameter::MEAN;
  const OnnxBlob y = node.Add("Reduction", {x}, [&](LayerParameter* layer) {
    ReductionParameter* param = layer->mutable_reduction_param();
    param->set_operation(divides ? ReductionParameter::SUM : kOperation);
    for (const int64_t axis : axes) param->add_axes(static_cast<int>(axis));
    if (keep) param->set_keep_dims(true);
  });
  if (divides && y.shape.count() > 0) {
    const int64_t count = x.shape.count() / y.shape.count();
    return node.Output(0, BinaryBlob(node, BinaryParameter::INTEGER_DIV, node.Checked(y),
                                     static_cast<float>(count)));
  }
  const bool cuts =
      whole && (kOperation == ReductionParameter::L2 || kOperation == ReductionParameter::LOG_SUM ||
                kOperation == ReductionParameter::LOG_SUM_EXP);
  node.Output(0, cuts ? WholeBlob(node, y) : y);
}

}  // namespace

void AddReductionConverters(ConverterTable* table) {
  using P = ReductionParameter;
  (*table)["ReduceSum"] = ConvertReduce<P::SUM>;
  (*table)["ReduceMean"] = ConvertReduce<P::MEAN>;
  (*table)["ReduceMax"] = ConvertReduce<P::MAX>;
  (*table)["ReduceMin"] = ConvertReduce<P::MIN>;
  (*table)["ReduceProd"] = ConvertReduce<P::PROD>;
  (*table)["ReduceL1"] = ConvertReduce<P::ASUM>;
  (*table)["ReduceL2"] = ConvertReduce<P::L2>;
  (*table)["ReduceSumSquare"] = ConvertReduce<P::SUMSQ>;
  (*table)["ReduceLogSum"] = ConvertReduce<P::LOG_SUM>;
  (*table)["ReduceLogSumExp"] = ConvertReduce<P::LOG_SUM_EXP>;
}

}  // namespace crema
