// R-CNN window files: images and labelled boxes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crema {

// Corners in pixels, all inclusive.
struct WindowBox {
  int x1 = 0;
  int y1 = 0;
  int x2 = 0;
  int y2 = 0;
};

struct LabelledWindow {
  uint32_t image = 0;  // index into WindowFile::images
  int label = 0;
  WindowBox box;
};

struct WindowFile {
  struct Image {
    std::string path;  // including the root
    int channels = 0;
    int height = 0;
    int width = 0;
    int line = 0;  // of the path, from 1
  };
  std::string source;
  std::vector<Image> images;
  std::vector<LabelledWindow> foreground;
  std::vector<LabelledWindow> background;  // label 0
};

struct WindowThresholds {
  float foreground = 0.5f;  // least overlap of a foreground window
  float background = 0.5f;  // a background window has less; windows in between are dropped
};

// Format: blocks of `# index`, path, channels, height, width, number of windows, and for each
// window `label overlap x1 y1 x2 y2`. `root` is prepended to each path. Throws kNotFound,
// kIoFailure, or kDataLoss with file and line: malformed or missing number, window outside of its
// image, differing numbers of channels, foreground without a label above 0.
WindowFile ReadWindowFile(const std::string& source, const std::string& root,
                          const WindowThresholds& thresholds);

}  // namespace crema
