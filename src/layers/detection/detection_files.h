// The result files of a benchmark (VOC, ILSVRC, COCO), collected image by image.
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

// Whether `param` names all that is needed: a folder, a label map and a file of image sizes.
bool WantsDetectionFiles(const SaveOutputParameter& param);

// Images come in the order of name_size_file and from its beginning again after the last. Every
// num_test_image images the files are written, whole or not at all, and collecting starts anew.
// Thread safety: one thread.
class DetectionFiles final : public LayerSessionState {
 public:
  // Reads the label map and the image sizes. Throws when one cannot be read.
  explicit DetectionFiles(const SaveOutputParameter& param, int64_t background);

  // The detections of the next image. Throws what WriteFileAtomically throws.
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
