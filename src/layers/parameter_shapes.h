// Shapes of parameters in weight files that differ from the layer's only in notation.
#pragma once

#include <algorithm>
#include <vector>

#include "format/blob_proto.h"
#include "graph/layer.h"

namespace crema {

// Sets the shape of `blob` if the number of values matches: 1 x C x 1 x 1 becomes C.
inline void GiveShape(const Shape& shape, BlobProto* blob) {
  if (DataCount(*blob) != shape.count()) return;
  blob->clear_num();
  blob->clear_channels();
  blob->clear_height();
  blob->clear_width();
  blob->mutable_shape()->clear_dim();
  for (int64_t dim : shape.dims()) blob->mutable_shape()->add_dim(dim);
}

// Does the same for each blob of a layer.
inline void GiveParameterShapes(const LayerInfo& info, std::vector<BlobProto>* blobs) {
  for (size_t i = 0; i < std::min(blobs->size(), info.parameters.size()); ++i) {
    GiveShape(info.parameters[i].shape, &(*blobs)[i]);
  }
}

}  // namespace crema
