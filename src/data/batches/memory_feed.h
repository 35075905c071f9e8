// Passes data of the program to a MemoryData layer of a session:
//
//   auto* feed = dynamic_cast<MemoryFeed*>(session.MutableState("data"));
//   feed->SetArrays(pixels, labels);
//   session.Forward();
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "crema.pb.h"
#include "data/image/image.h"

namespace crema {

// Each Forward takes the next batch and wraps around after the last sample. All functions throw
// kInvalidArgument, naming the layer, and have no effect then. Thread safety: one thread at a time,
// and not while the session runs.
class MemoryFeed {
 public:
  virtual ~MemoryFeed() = default;

  // Sets samples that are already transformed: channels x height x width values each in `data`, and
  // one in `labels`. Does not copy: both must outlive their use, or belong to `owner`, which is
  // kept until then. Requires: the count is a multiple of the batch size.
  virtual void SetArrays(std::span<const float> data, std::span<const float> labels,
                         std::shared_ptr<const void> owner = nullptr) = 0;

  // Copies and transforms samples (transform_param). Requires: the count is a multiple of the batch
  // size, and all samples of an earlier call were used.
  virtual void AddDatums(std::span<const Datum> datums) = 0;
  virtual void AddImages(std::span<const Image> images, std::span<const int> labels) = 0;
};

}  // namespace crema
