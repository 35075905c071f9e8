// How a program hands data to a MemoryData layer of a session:
//
//   auto* feed = dynamic_cast<MemoryFeed*>(session.MutableState("data"));
//   feed->SetArrays(pixels, labels);
//   session.Forward();
#pragma once

#include <span>
#include <vector>

#include "crema.pb.h"
#include "data/image/image.h"

namespace crema {

// Each Forward takes the next batch; behind the last sample comes the first. Everything throws
// kInvalidArgument, naming the layer, and leaves what was there.
// Thread safety: one thread at a time, and not while the session runs.
class MemoryFeed {
 public:
  virtual ~MemoryFeed() = default;

  // Samples as the net sees them: nothing is transformed. `data` holds channels x height x width
  // values a sample, `labels` one. Both are not copied and must live until they are replaced. Their
  // number must be a multiple of the batch size.
  virtual void SetArrays(std::span<const float> data, std::span<const float> labels) = 0;

  // Copies; each is transformed as transform_param says, when it is handed over. Their number must
  // be a multiple of the batch size. Refused while samples of an earlier call have not been used.
  virtual void AddDatums(std::span<const Datum> datums) = 0;
  virtual void AddImages(std::span<const Image> images, std::span<const int> labels) = 0;
};

}  // namespace crema
