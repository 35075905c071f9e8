// Initial values of parameters: constant, uniform, gaussian, positive_unitball, xavier, msra,
// bilinear.
#pragma once

#include "core/error.h"
#include "core/rng.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "crema.pb.h"

namespace crema {

// Throws kInvalidArgument if the filler is unknown or cannot fill a blob of this shape.
// `where.field` is the path of the filler itself, e.g. "inner_product_param.weight_filler".
void ValidateFiller(const FillerParameter& filler, const Shape& shape, const Where& where = {});

// Writes the f32 or f64 tensor `out` on the CPU. Element i is a function of the filler, the shape,
// the stream and i: it does not depend on the number of threads. Requires: out has as many elements
// as shape. Throws as ValidateFiller does.
void Fill(const FillerParameter& filler, const Shape& shape, const RandomStream& stream,
          const TensorView& out, int threads = 1);

}  // namespace crema
