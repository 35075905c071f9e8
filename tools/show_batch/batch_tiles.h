// Converts the samples of a batch to tiles of a sheet.
#pragma once

#include <string>
#include <vector>

#include "common/sample_picture.h"
#include "runtime/session.h"
#include "show_batch/sheet.h"

namespace crema::tools {

// The output of a data layer in the last batch. Thread safety: const.
class BatchTiles {
 public:
  // `class_names` by label; may be empty. Throws kInvalidArgument if no data layer of the plan
  // outputs images of one, three or four channels.
  BatchTiles(const Plan& plan, std::vector<std::string> class_names);

  const std::string& blob() const { return picture_.blob(); }
  int64_t batch() const { return batch_; }
  Tile MakeTile(const Session& session, int64_t index) const;
  // Returns "name: label ...".
  std::string Describe(const Session& session, int64_t index) const;

 private:
  std::vector<std::string> LabelsOf(const Session& session, int64_t index) const;
  std::vector<CaptionedBox> BoxesOf(const Session& session, int64_t index) const;
  std::string NameOf(float label) const;

  const SamplePicture picture_;
  const std::vector<std::string> class_names_;
  int64_t batch_ = 0;
  int value_ = -1;      // index of the images
  std::string labels_;  // blob; empty: none
  bool boxes_ = false;  // rows of boxes
  bool mixed_ = false;  // one probability per class
};

}  // namespace crema::tools
