// Sources whose images can go up to a GPU as the bytes that they are.
#pragma once

#include <memory>
#include <string>

#include "crema.pb.h"
#include "graph/layer.h"

namespace crema {

// A source in two parts, which together make what it makes, bit for bit.
struct ByteParts {
  // The same layer, of the same parameters, whose output 0 is bytes (u8, batch x H x W x C),
  // cropped but neither mirrored nor changed otherwise.
  std::unique_ptr<const Layer> source;
  // It has one more output, behind the others: u8, batch x kPlacementBytes
  // (data/transform/placement_bytes.h).
  bool places = false;
  // Of the layer that makes output 0 of it, from the bytes and, where there are any, placements:
  // all but its name, bottoms and tops.
  LayerParameter numbers;
};

// A layer that is one of these may be planned so. Thread safety: const.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Why its images leave as numbers; empty: there is no reason, and Part may be called. Throws what
  // Infer throws where that cannot be known, or a mean image cannot be read.
  virtual std::string WhyNoBytes(Phase phase) const = 0;
  virtual ByteParts Part() const = 0;
};

}  // namespace crema
