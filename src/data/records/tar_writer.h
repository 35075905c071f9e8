// Writes image data sets in tar archives, see tar_shards.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/records/record_db.h"

namespace crema {

constexpr uint64_t kTarShardBytes = uint64_t{1} << 30;

// A path that ends in .tar becomes one archive; any other path a folder with 000000.tar,
// 000001.tar, ..., of about `shard_bytes` each. Records are Datums: encoded image files are written
// as they are; raw bytes of one or three channels become PGM or PPM files. The key becomes the
// sample name, with invalid characters replaced by "_". Equal records give equal archives. Throws
// kInvalidArgument if `path` exists, and in Put for an unsuitable record or a duplicate name;
// kIoFailure.
std::unique_ptr<RecordWriter> CreateTarShards(const std::string& path,
                                              uint64_t shard_bytes = kTarShardBytes);

}  // namespace crema
