// Writes data sets of images in tar archives, see tar_shards.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/records/record_db.h"

namespace crema {

constexpr uint64_t kTarShardBytes = uint64_t{1} << 30;

// A path that ends in .tar becomes one archive; any other a folder of 000000.tar, 000001.tar, ...,
// of about `shard_bytes` each. Records are Datums: an image file that is encoded is written as it
// is; raw bytes of one or three channels become PGM or PPM files. A key is the name of its sample;
// what may not stand in such a name becomes "_". Equal records make equal archives.
// Throws kInvalidArgument where `path` exists, and in Put for a record that is no such Datum or
// whose name was there already; kIoFailure.
std::unique_ptr<RecordWriter> CreateTarShards(const std::string& path,
                                              uint64_t shard_bytes = kTarShardBytes);

}  // namespace crema
