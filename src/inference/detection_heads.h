// Detectors that end in raw outputs, and how these become boxes; the table is in
// detection_heads.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/shape.h"
#include "math/boxes.h"

namespace crema {

// An output of a net.
struct HeadOutput {
  std::string name;
  Shape shape;       // of one image: without the first axis
  bool raw = false;  // has values of a convolution that were only moved
};

struct KeyPoint {
  double x = 0;
  double y = 0;
};

// In pixels of the input.
struct HeadObject {
  int label = 0;
  double score = 0;
  Box box = {};
  std::vector<KeyPoint> keypoints = {};
};

// Returns the objects best first, without those that overlap a better one of their class by more
// than `overlap` (1: all stay), and of these the best `most` (-1: all).
std::vector<HeadObject> KeepBest(std::vector<HeadObject> found, double overlap, BoxUnits units,
                                 int64_t most);

struct HeadKind;

// The outputs that a kind of head reads.
struct HeadFit {
  std::vector<size_t> outputs = {};  // indices, in the order that the kind decodes
  int classes = 0;                   // labels are below this; 0: unknown
  bool background = false;           // class 0 is the background, which no box has
  bool certain = false;              // no other kind has such outputs
};

// A kind of head with the outputs of one net. Thread safety: const.
class DetectionHead {
 public:
  // Returns the head called `name`; if that is empty, the one that the shapes show, or nothing if
  // they show none with certainty. Throws kInvalidArgument for an unknown name, and for outputs
  // that do not suit it.
  static std::optional<DetectionHead> Find(const std::string& name,
                                           std::span<const HeadOutput> outputs, int64_t height,
                                           int64_t width);
  // Returns the names of the kinds that could have such outputs.
  static std::vector<std::string> Candidates(std::span<const HeadOutput> outputs, int64_t height,
                                             int64_t width);
  static std::vector<std::string> Names();

  std::string name() const;
  // Returns the flags for the pixels of the published models; empty: their values are 0 to 255.
  std::string pixels() const;
  // Names of the outputs, in the order that Decode takes.
  const std::vector<std::string>& outputs() const { return outputs_; }
  int classes() const { return fit_.classes; }
  bool background() const { return fit_.background; }

  // Returns the objects of one image with scores above `least`, best first, without those that
  // overlap a better one of their class by more than `overlap` (empty: as the kind has it).
  // Requires: all values of each output; for one image, or for several of which `index` is one.
  std::vector<HeadObject> Decode(std::span<const std::span<const float>> values, size_t index,
                                 double least, const std::optional<double>& overlap) const;

 private:
  DetectionHead(const HeadKind& kind, HeadFit fit, std::span<const HeadOutput> outputs,
                int64_t height, int64_t width);

  const HeadKind* kind_;
  HeadFit fit_;
  std::vector<std::string> outputs_;
  std::vector<Shape> shapes_;
  int64_t height_;
  int64_t width_;
};

}  // namespace crema
