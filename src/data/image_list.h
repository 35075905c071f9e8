// Lists of image files: lines of `path label`.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace crema {

// Thread safety: const.
class ImageList {
 public:
  struct Entry {
    std::string path;  // with the root in front
    int label = 0;
    uint32_t line = 0;  // from 1; 0: of no list
  };

  // Each line is split at its last space, so paths may contain some; empty lines are skipped.
  // `root` is put before each path as it is. Throws kNotFound, kIoFailure, or kDataLoss (no
  // entries, a line without a label, a label that is no whole number), naming file and line.
  ImageList(const std::string& source, const std::string& root);

  // The frames of a film as image files: `pattern` has one %d, or %06d and the like, for the number
  // of the frame. They begin with number 0 or 1 and end before the first that is missing; `skip`
  // frames are left out between two. The labels are 0. Throws kInvalidArgument for a pattern
  // without a number, kNotFound without frames.
  static ImageList OfFrames(const std::string& pattern, uint32_t skip);

  const std::vector<Entry>& entries() const { return entries_; }  // never empty
  const std::string& source() const { return source_; }
  // "'a.jpg' (line 3 of 'list.txt')", for messages.
  std::string Name(const Entry& entry) const;

 private:
  explicit ImageList(std::string source) : source_(std::move(source)) {}

  std::string source_;
  std::vector<Entry> entries_;
};

}  // namespace crema
