// Computes nodes whose inputs are constant: shape arithmetic and changes of weights.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx/import_node.h"

namespace crema {

// Computes the outputs of a node; nothing: it cannot be folded. Inputs are constants.
using FoldFunction = std::function<std::vector<OnnxTensor>(const NodeImport&)>;
using FoldTable = std::map<std::string, FoldFunction>;

// A folded value may have as many elements as the inputs together, or this many.
inline constexpr int64_t kMostFoldedElements = int64_t{1} << 20;

// Add what they can fold, by operator.
void AddArithmeticFolds(FoldTable* table);
void AddMoveFolds(FoldTable* table);

// Returns the dimensions that NumPy broadcasts both to; nothing: they do not fit.
std::optional<std::vector<int64_t>> BroadcastDims(const std::vector<int64_t>& a,
                                                  const std::vector<int64_t>& b);
// Returns a tensor whose element i.. along the axes of `dims` is the element
// offset + sum i * strides of `from`. Requires: all of them exist.
OnnxTensor StridedCopy(const OnnxTensor& from, std::vector<int64_t> dims, int64_t offset,
                       const std::vector<int64_t>& strides);
// Parameters that converters make of few bytes of a file have this many elements at most.
inline constexpr int64_t kMostMadeElements = int64_t{1} << 24;

// Returns the number of elements, or 2^40 if there are more.
int64_t BoundedCount(const std::vector<int64_t>& dims);
// Returns the row-major strides of a tensor.
std::vector<int64_t> StridesOf(const std::vector<int64_t>& dims);
// Returns a tensor repeated along axes of size 1. Requires: BroadcastDims gives `dims`.
OnnxTensor BroadcastTensor(const OnnxTensor& from, const std::vector<int64_t>& dims);
// Returns a tensor with its axes in another order. Requires: `order` is a permutation.
OnnxTensor TransposeTensor(const OnnxTensor& from, const std::vector<int64_t>& order);
// Returns the same values under other dimensions. Requires: as many elements.
OnnxTensor ReshapeTensor(OnnxTensor from, std::vector<int64_t> dims);
// Returns the values as single-precision numbers. Throws kUnsupported for a whole number that is
// none.
OnnxTensor ToFloats(const OnnxTensor& from);
// Says which element no float is; empty: floats can be all of them. `limits`: the limits of int32
// and int64 may be rounded.
std::string WhyNoFloats(const OnnxTensor& tensor, bool limits = false);
// Returns the values in another type: whole numbers are cut towards 0 and wrap, floats are the
// nearest ones.
OnnxTensor CastTensor(const OnnxTensor& from, int type);

// Shape arithmetic that folding and conversion share. They refuse the node if it is wrong.
//
// Returns the new dimensions of Reshape: 0 copies unless `allow_zero`, one -1 is inferred.
std::vector<int64_t> ReshapedDims(const NodeImport& node, const std::vector<int64_t>& from,
                                  std::vector<int64_t> to, bool allow_zero);
// Returns axes with negative ones counted from the end.
std::vector<int64_t> CanonicalAxes(const NodeImport& node, std::vector<int64_t> axes, size_t count);
// Returns the attribute `axis`, counted from the start.
int AxisOf(const NodeImport& node, const Shape& x, int64_t fallback);
std::vector<int64_t> UnsqueezedDims(const NodeImport& node);
std::vector<int64_t> SqueezedDims(const NodeImport& node);
// The parts of Slice: for every axis of the input.
struct SliceBounds {
  std::vector<int64_t> start, step, size;
};
SliceBounds SliceBoundsOf(const NodeImport& node);
// Returns the sizes of the parts of Split.
std::vector<int64_t> SplitSizes(const NodeImport& node, int64_t size);

}  // namespace crema
