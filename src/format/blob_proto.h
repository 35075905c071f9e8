// Converts between BlobProto and f32 or f64 tensors on the CPU.
#pragma once

#include "core/shape.h"
#include "core/tensor.h"
#include "crema.pb.h"

namespace crema {

// Returns true if num, channels, height, width give the size; they override `shape`.
bool IsLegacyShape(const BlobProto& proto);

// Throws kDataLoss for an invalid shape. Does not allocate.
Shape ShapeOf(const BlobProto& proto);

// Returns true if the stored array fits a blob of shape `target`: the shapes are equal, or the
// stored one has four axes and equals the target padded with ones on the left, as old Caffe stored
// all arrays.
bool ShapeMatches(const BlobProto& proto, const Shape& target);

// Returns the number of stored values, independent of the shape: double_data if present, else data,
// else NVCaffe's raw_data.
int64_t DataCount(const BlobProto& proto);
int64_t DiffCount(const BlobProto& proto);

// Throws kDataLoss if the number of values (or of gradients, if present) does not match the shape.
void CheckBlob(const BlobProto& proto);

// Copies values or gradients to a tensor. Throws kDataLoss if their number differs.
void CopyTo(const BlobProto& proto, const TensorView& data);
void CopyDiffTo(const BlobProto& proto, const TensorView& diff);

// Copies shape and values of a tensor to the message; f64 goes to double_data.
void CopyFrom(const ConstTensorView& data, BlobProto* proto);
// Copies gradients of a tensor to the message; keeps its shape and values.
void CopyDiffFrom(const ConstTensorView& diff, BlobProto* proto);

}  // namespace crema
