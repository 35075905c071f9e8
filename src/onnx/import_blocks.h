// Frequent layers that converters are made of.
#pragma once

#include <optional>
#include <vector>

#include "onnx/import_node.h"

namespace crema {

std::vector<int64_t> DimsOf(const OnnxBlob& blob);

// Returns the blob under other dimensions, of as many elements. First dimensions that stay are
// copied, so that other batches fit.
OnnxBlob ReshapeBlob(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& dims);
// Returns the blob with its axes in another order.
OnnxBlob PermuteBlob(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& order);
// Undoes PermuteBlob with this order.
OnnxBlob PermuteBlobBack(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& order);
// Returns the blob broadcast to `dims`.
OnnxBlob ExpandBlob(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& dims);
// Adds (or cuts, where negative) elements on every axis.
OnnxBlob PadBlob(NodeImport& node, const OnnxBlob& blob, const std::vector<int64_t>& before,
                 const std::vector<int64_t>& after, float value = 0,
                 PadParameter::PadMode mode = PadParameter::CONSTANT);
// Returns `size` elements of an axis from `start` on.
OnnxBlob CutBlob(NodeImport& node, const OnnxBlob& blob, int axis, int64_t start, int64_t size);
// Returns the blob that the parts are when joined on the last axis, moved as they are, if they are
// cuts of one blob. Requires: parts of three axes.
std::optional<OnnxBlob> PackedBlob(NodeImport& node, const std::vector<OnnxBlob>& parts);
// A layer that works on rows, the last axis, may take them before they are moved: returns the
// blob that has them, if that costs no more. MoveRows moves its result as `like` is moved.
std::optional<OnnxBlob> SourceOfRows(const NodeImport& node, const OnnxBlob& blob);
OnnxBlob MoveRows(NodeImport& node, const OnnxBlob& like, const OnnxBlob& rows);

// Return the facts of an ONNX type of whole numbers; false and 32 for others.
bool IsSignedType(int type);
int BitsOf(int type);
// Returns whole numbers as the type holds them: their last bits.
OnnxBlob WrappedBlob(NodeImport& node, const OnnxBlob& x, int type);
// Cuts towards 0.
OnnxBlob WholeBlob(NodeImport& node, const OnnxBlob& x);
OnnxBlob UnaryBlob(NodeImport& node, UnaryParameter::Operation operation, const OnnxBlob& x);
// Broadcast as in NumPy.
OnnxBlob BinaryBlob(NodeImport& node, BinaryParameter::Operation operation, const OnnxBlob& a,
                    const OnnxBlob& b);
OnnxBlob BinaryBlob(NodeImport& node, BinaryParameter::Operation operation, const OnnxBlob& a,
                    float value, bool value_first = false);
// (shift + scale x)^power.
OnnxBlob PowerBlob(NodeImport& node, const OnnxBlob& x, float power, float scale, float shift);
// Returns the parts joined along an axis.
OnnxBlob ConcatBlob(NodeImport& node, const std::vector<OnnxBlob>& parts, int axis);
// x of any number of axes times `weight`, (outputs, inputs), over its last axis.
OnnxBlob InnerProductBlob(NodeImport& node, const OnnxBlob& x, const OnnxTensor& weight,
                          const std::optional<OnnxTensor>& bias = {});
// Returns weights less one zero point for all of them or one for each entry of axis 0; nothing: the
// zero points do not fit.
std::optional<OnnxTensor> LessZeroPoints(const OnnxTensor& weights, const OnnxTensor& zero);
// Keeps the folded axes, with size 1.
OnnxBlob ReduceBlob(NodeImport& node, ReductionParameter::ReductionOp operation, const OnnxBlob& x,
                    const std::vector<int64_t>& axes);

}  // namespace crema
