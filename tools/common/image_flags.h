// Flags of commands that convert image files to records.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/image_record.h"

namespace crema::tools {

// Returns the values of --gray, --resize_height, --encoded and so on. Throws kInvalidArgument for
// invalid or conflicting flags, including those below and --on_bad.
ImageRecordOptions ImageOptionsOfFlags();

// Returns the flags as text, one per line, for Conversion's `origin`.
std::string DescribeImageFlags();

// Throws kUnsupported for more images than ImageKey can number.
void CheckImageCount(size_t images);

// Returns the order of `count` images: unchanged, or with --shuffle, permuted by --seed.
std::vector<size_t> OrderOfFlags(size_t count);

// Puts entries in the order of OrderOfFlags.
template <typename Entry>
void ShuffleByFlags(std::vector<Entry>* entries) {
  std::vector<Entry> ordered;
  ordered.reserve(entries->size());
  for (const size_t i : OrderOfFlags(entries->size())) ordered.push_back(std::move((*entries)[i]));
  *entries = std::move(ordered);
}

}  // namespace crema::tools
