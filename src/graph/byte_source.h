// Sources whose images can be uploaded to a GPU as bytes.
#pragma once

#include <memory>
#include <string>

#include "crema.pb.h"
#include "graph/layer.h"

namespace crema {

// A source split into two parts, which together compute the same bits.
struct ByteParts {
  // The same layer, with the same parameters, whose output 0 is bytes (u8, batch x H x W x C),
  // cropped but not mirrored or otherwise changed.
  std::unique_ptr<const Layer> source;
  // True if it has one more output, after the others: u8, batch x kPlacementBytes
  // (data/transform/placement_bytes.h).
  bool places = false;
  // The layer that computes output 0 of the source from the bytes and the placements, if any: all
  // but its name, bottoms and tops.
  LayerParameter numbers;
};

// A layer that derives from this can be planned in two parts. Thread safety: const.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Returns why its images cannot be uploaded as bytes; empty: Part may be called. Throws the
  // errors of Infer if that is unknown, or if a mean image cannot be read.
  virtual std::string WhyNoBytes(Phase phase) const = 0;
  virtual ByteParts Part() const = 0;
};

}  // namespace crema
