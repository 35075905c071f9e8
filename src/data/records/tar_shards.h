// Image data sets in tar archives ("shards") with the names of WebDataset.
//
// A sample is a group of consecutive files with the same path up to the first dot of the file name:
// `a/0001.jpg`, `a/0001.cls`. One file is the image, by its extension; the optional `cls` holds the
// label as a whole number. Other files and groups without an image are ignored.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/records/record_db.h"

namespace crema {

// A split file name. `sample` is empty for a file without extension and for a hidden file.
struct TarName {
  std::string_view sample;     // "a/0001"
  std::string_view extension;  // "jpg"; "seg.png" for a second image
};
TarName SplitTarName(std::string_view name);

// Returns true if files with this extension (in any case) are images of samples.
bool IsImageExtension(std::string_view extension);

// Expands a pattern to paths: {000..119} for numbers (with the digits of the first), {a,b} for
// words, any number of such groups. A text without braces is returned as it is. Throws
// kInvalidArgument for a malformed pattern, or one with a million paths or more.
std::vector<std::string> ExpandBraces(const std::string& pattern);

// Returns true for a pattern, a tar archive (by its first bytes or .tar), or a folder with .tar
// files.
bool LooksLikeTarShards(const std::string& path);

// Returns the samples of all shards as Datums with `encoded` set and an optional `label`; keys are
// sample names. Reads all headers once for random access; shards must be seekable files. Throws
// kNotFound, kIoFailure, kDataLoss, kInvalidArgument (pattern).
std::unique_ptr<RecordReader> OpenTarShards(const std::string& path);

inline constexpr uint64_t kTarShardBytes = uint64_t{1} << 30;

// A path that ends in .tar becomes one archive; any other path a folder with 000000.tar,
// 000001.tar, ..., of about `shard_bytes` each. Records are Datums: encoded image files are written
// as they are; raw bytes of one or three channels become PGM or PPM files. The key becomes the
// sample name, with invalid characters replaced by "_". Equal records give equal archives. Throws
// kInvalidArgument if `path` exists, and in Put for an unsuitable record or a duplicate name;
// kIoFailure.
std::unique_ptr<RecordWriter> CreateTarShards(const std::string& path,
                                              uint64_t shard_bytes = kTarShardBytes);

}  // namespace crema
