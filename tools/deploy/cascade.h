// Cascades of nets (cascade.proto), such as MTCNN.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "inference/detector.h"
#include "inference/model.h"

namespace crema::tools {

class CascadeFile;

struct CascadeCandidate {
  Box box = {};
  double score = 0;
  BoxOffsets shifts = {};                // in sizes of the box
  std::vector<KeyPoint> keypoints = {};  // in pixels
};

// Thread safety: const; each thread makes its own CascadeRunner.
class Cascade {
 public:
  // Reads the file and its nets. Refers to the registry. Throws kInvalidArgument if they do not
  // fit, and what reading throws.
  Cascade(const std::string& path, const Registry& registry, const ModelOptions& options);
  ~Cascade();

  const CascadeFile& file() const { return *file_; }
  const std::vector<std::shared_ptr<const Model>>& models() const { return models_; }
  // Returns the first net for an input with these spatial axes.
  std::shared_ptr<const Model> FirstFor(int64_t a, int64_t b) const;

 private:
  std::string folder_;
  const Registry& registry_;
  ModelOptions options_;
  std::unique_ptr<const CascadeFile> file_;
  std::vector<std::shared_ptr<const Model>> models_;  // by stage
};

// Thread safety: one thread at a time.
class CascadeRunner {
 public:
  explicit CascadeRunner(const Cascade& cascade);
  ~CascadeRunner();
  // Returns the boxes of a BGR picture with scores above the threshold of the last stage, best
  // first; their label is 1.
  std::vector<FoundBox> Detect(const Image& picture);

 private:
  class Stage;
  std::vector<CascadeCandidate> FirstBoxes(const Image& picture);
  std::vector<CascadeCandidate> Accepted(size_t s, const Image& picture,
                                         const std::vector<CascadeCandidate>& boxes);

  const Cascade& cascade_;
  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace crema::tools
