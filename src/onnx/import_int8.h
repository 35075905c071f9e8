// Recognises layers that an ONNX model computes on bytes.
#pragma once

#include "crema.pb.h"

namespace crema {

// Gives ranges (`int8`) to layers whose inputs the net rounds to bytes and whose weights are
// multiples of a step, sets precision INT8, and removes the layers that rounded. Such a blob is a
// QuantizeLinear and DequantizeLinear of one scale, symmetric or without negative numbers; others
// stay as they are. A blob that some readers take rounded and others as it is may be rounded for
// all. Does nothing if no product has such an input. Requires: blobs are not changed in place.
void UseInt8(NetParameter* net);

}  // namespace crema
