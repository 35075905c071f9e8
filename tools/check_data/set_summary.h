// Summarizes the records of a data set.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/record_pixels.h"

namespace crema::tools {

// Number of occurrences, and the first few.
struct Examples {
  static constexpr size_t kMost = 5;
  uint64_t count = 0;
  std::vector<std::string> texts;

  void Add(const std::string& text) {
    ++count;
    if (texts.size() < kMost) texts.push_back(text);
  }
};

// Content of one image; equal hashes count as equal images.
struct ImageContent {
  uint64_t hash = 0;  // hash of the decoded pixels and their size
  uint64_t ordinal = 0;
  int label = 0;
};

enum class Colors { kGray, kGrayInColor, kColor, kAlpha, kOther };

// Facts about one record.
struct RecordFacts {
  std::string name;   // the printable key
  std::string fault;  // why it is damaged; the rest is unset then
  bool encoded = false;
  bool annotated = false;
  Colors colors = Colors::kColor;
  std::array<int, 3> size = {};  // channels, height, width
  ImageContent content;
  std::vector<int> box_labels;
  std::vector<std::string> bad_boxes;
};
// Thread safety: any number of threads.
RecordFacts ExamineRecord(const OwnedRecord& record, const std::string& path);

// Facts about all records. Thread safety: one thread at a time.
struct SetSummary {
  std::string path;
  uint64_t records = 0;
  uint64_t encoded = 0;
  uint64_t annotated = 0;
  Examples broken;
  Examples gray;           // one channel
  Examples gray_in_color;  // three equal channels
  Examples alpha;          // four channels
  Examples negative_labels;
  uint64_t boxes = 0;
  Examples bad_boxes;
  Examples without_boxes;
  std::map<int, uint64_t> labels;  // labels of images, or of boxes if there are any
  std::map<std::array<int, 3>, uint64_t> sizes;
  std::vector<ImageContent> contents;  // sorted by hash, then ordinal

  void Add(const RecordFacts& facts);
};

// Reads the whole data set. Throws what OpenRecords throws.
SetSummary SummarizeSet(const std::string& path, int threads);

}  // namespace crema::tools
