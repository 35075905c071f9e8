// Cascades of nets (proto/cascade.proto), such as MTCNN.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/log.h"
#include "data/image/image.h"
#include "inference/detector.h"
#include "inference/model.h"

namespace crema {

class CascadeFile;

struct CascadeCandidate {
  Box box = {};
  double score = 0;
  BoxOffsets shifts = {};                // in sizes of the box
  std::vector<KeyPoint> keypoints = {};  // in pixels
};

// Makes the net of an .onnx file for an input of this shape, which is ignored if it does not fit.
using OnnxNets = std::function<NetFile(const Shape& input)>;

struct CascadeOptions {
  ModelOptions model = {};
  // Reads an .onnx file (OpenOnnxNet). Empty: .onnx files are refused.
  std::function<OnnxNets(const std::string& path)> open_onnx = {};
  // All files must be in this folder, as those of a prototxt (ConfineFilesTo), and beside the file
  // of the cascade. Empty: anywhere.
  std::string folder = {};
};

// Thread safety: const; each thread makes its own CascadeRunner.
class Cascade final : public BoxReader {
 public:
  // Reads the file and its nets, and runs each of them once. Refers to the registry. Throws
  // kInvalidArgument if they do not fit, and what reading throws.
  Cascade(const std::string& path, const Registry& registry, CascadeOptions options, LogSink& log);
  ~Cascade() override;

  const std::string& path() const { return path_; }
  const CascadeFile& file() const { return *file_; }
  const std::vector<std::shared_ptr<const Model>>& models() const { return models_; }
  // Returns the first net for an input with these spatial axes.
  std::shared_ptr<const Model> FirstFor(int64_t a, int64_t b) const;

  // The boxes as one output, for callers that handle tensors: a row of RowSize() for each, best
  // first, with score, left, top, right, bottom, and x and y of each key point, in pixels.
  std::vector<float> RowsOf(std::span<const FoundBox> found) const;
  int64_t RowSize() const { return 5 + 2 * key_points_; }
  const std::vector<std::string>& outputs() const override { return outputs_; }
  double least_score() const override;  // the threshold of the last stage
  double default_confidence() const override { return least_score(); }
  std::vector<FoundBox> BoxesOf(std::span<const std::span<const float>> values, size_t index,
                                int height, int width, const ImagePlacement& place,
                                double confidence) const override;

 private:
  std::string FileOf(const std::string& name) const;
  OnnxNets OpenOnnx(int stage) const;
  std::shared_ptr<const Model> MakeStage(int stage, NetFile net) const;

  const std::string path_;
  const Registry& registry_;
  const CascadeOptions options_;
  LogSink& log_;
  const std::vector<std::string> outputs_ = {"boxes"};
  std::unique_ptr<const CascadeFile> file_;
  std::vector<std::shared_ptr<const Model>> models_;  // by stage
  int64_t key_points_ = 0;
  OnnxNets first_nets_;  // empty: the first net takes any size
};

// Thread safety: one thread at a time.
class CascadeRunner {
 public:
  explicit CascadeRunner(const Cascade& cascade);
  ~CascadeRunner();
  // Returns the boxes of a BGR picture with scores above the threshold of the last stage, best
  // first; their label is 1. Asks `cancelled` before each size and each batch; throws kCancelled if
  // it returns true. Throws kInvalidArgument if the picture is too large.
  std::vector<FoundBox> Detect(const Image& picture, const std::function<bool()>& cancelled = {});
  // Runs each net on zeros. Throws kInvalidArgument if its outputs do not fit its stage.
  void Check();
  // Returns the number of key points of a box.
  int64_t KeyPoints() const;

 private:
  class Stage;
  std::vector<CascadeCandidate> BoxesOfSize(const Image& picture, double scale);
  std::vector<CascadeCandidate> FirstBoxes(const Image& picture,
                                           const std::function<bool()>& cancelled);
  std::vector<CascadeCandidate> Accepted(size_t s, const Image& picture,
                                         const std::vector<CascadeCandidate>& boxes,
                                         const std::function<bool()>& cancelled);

  const Cascade& cascade_;
  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace crema
