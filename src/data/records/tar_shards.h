// Data sets of images in tar archives ("shards"), named as WebDataset names them.
//
// A sample is the group of consecutive files that have one name up to the first dot behind the last
// slash: `a/0001.jpg`, `a/0001.cls`. One file is the image, by its extension; `cls`, where it is
// there, holds the label as a whole number; others are passed over, and so are groups without an
// image.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/records/record_db.h"

namespace crema {

// A file name taken apart. `sample` is empty for a file that belongs to none: without extension, or
// hidden.
struct TarName {
  std::string_view sample;     // "a/0001"
  std::string_view extension;  // "jpg"; "seg.png" for a second image
};
TarName SplitTarName(std::string_view name);

// Whether files of this extension are taken for the image of a sample; upper case or lower.
bool IsImageExtension(std::string_view extension);

// The paths that a pattern stands for: {000..119} for numbers (as many digits as the first has),
// {a,b} for words, any number of such groups. A text without braces stands for itself. Throws
// kInvalidArgument for a pattern that cannot be understood, or that stands for a million or more.
std::vector<std::string> ExpandBraces(const std::string& pattern);

// Whether `path` is a pattern, a file that begins like a tar archive or ends in .tar, or a folder
// with files that end so.
bool LooksLikeTarShards(const std::string& path);

// The samples of all shards, as Datums with `encoded` set and `label` where there is one; keys are
// the names of samples. All headers are read once, so that any sample can be read; shards must be
// seekable files. Throws kNotFound, kIoFailure, kDataLoss, kInvalidArgument (pattern).
std::unique_ptr<RecordReader> OpenTarShards(const std::string& path);

}  // namespace crema
