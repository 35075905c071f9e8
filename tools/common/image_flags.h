// Flags of commands that make records of image files.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "common/image_record.h"

namespace crema::tools {

// What --gray, --resize_height, --encoded and the like say. Throws kInvalidArgument for those that
// make no sense, or not together; also for those below and --on_bad.
ImageRecordOptions ImageOptionsOfFlags();

// The same as text, a line each, for Conversion's `origin`.
std::string DescribeImageFlags();

// Throws kUnsupported for more images than ImageKey has numbers.
void CheckImageCount(size_t images);

// Where each of `count` images goes: as they are, or, with --shuffle, permuted by --seed.
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
