// Arrays in files: BlobProto and tensors of f32 and f64 on the CPU.
#pragma once

#include "core/shape.h"
#include "core/tensor.h"
#include "crema.pb.h"

namespace crema {

// Whether the size is given by num, channels, height, width; they win over `shape`.
bool IsLegacyShape(const BlobProto& proto);

// Throws kDataLoss for what cannot be a shape. Allocates nothing.
Shape ShapeOf(const BlobProto& proto);

// Whether the stored array fits a blob of shape `target`: it is equal, or has four axes and is the
// same once the target is filled up with ones on the left, as Caffe stored all arrays once.
bool ShapeMatches(const BlobProto& proto, const Shape& target);

// Values stored, whatever the shape says: double_data if there is any, else data, else NVCaffe's
// raw_data.
int64_t DataCount(const BlobProto& proto);
int64_t DiffCount(const BlobProto& proto);

// Throws kDataLoss if the shape and the number of values (and of gradients, if there are any) do
// not agree.
void CheckBlob(const BlobProto& proto);

// Values or gradients into a tensor. Throws kDataLoss unless there are as many as it has elements.
void CopyTo(const BlobProto& proto, const TensorView& data);
void CopyDiffTo(const BlobProto& proto, const TensorView& diff);

// Shape and values out of a tensor, replacing those of the message; f64 goes to double_data.
void CopyFrom(const ConstTensorView& data, BlobProto* proto);
// Gradients out of a tensor; shape and values stay.
void CopyDiffFrom(const ConstTensorView& diff, BlobProto* proto);

}  // namespace crema
