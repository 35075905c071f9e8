// Result files of a benchmark (VOC, ILSVRC, COCO), collected one image at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "graph/layer.h"
#include "layers/detection/image_sizes.h"

namespace crema {

struct Detection {
  int64_t label = 0;
  double score = 0;
  Box box;
};

// Returns true if `param` names all that is required: a folder, a label map and a file of image
// sizes.
bool WantsDetectionFiles(const SaveOutputParameter& param);

// Images come in the order of name_size_file, which restarts after its last line. Every
// num_test_image images the files are written atomically and collecting restarts. Thread safety:
// one thread.
class DetectionFiles final : public LayerSessionState {
 public:
  // Reads the label map and the image sizes. Throws if one cannot be read.
  explicit DetectionFiles(const SaveOutputParameter& param, int64_t background);

  // Adds the detections of the next image. Throws kDataLoss for a score or box that is not finite,
  // and what WriteFileAtomically throws.
  void Add(const std::vector<Detection>& detections);

 private:
  struct Row {
    size_t image;
    int64_t label;
    double score;
    Box pixels;
  };

  void Write() const;
  void WriteVoc() const;
  void WriteIlsvrc() const;
  void WriteCoco() const;
  std::string Path(const std::string& name) const;
  const std::string& LabelName(int64_t label) const;

  const SaveOutputParameter param_;
  const int64_t background_;
  std::map<int64_t, std::string> labels_;
  std::vector<ImageSize> images_;
  size_t images_per_file_ = 0;
  size_t next_image_ = 0;
  std::vector<Row> rows_;
};

}  // namespace crema
