// Records kept in memory once they were read.
#pragma once

#include <memory>

#include "data/pipeline/bounded_cache.h"
#include "data/records/record_db.h"

namespace crema {

// Serves what is in the cache from there, by the numbers of records, and puts there what it reads.
// Records of the cache do not touch the data set.
std::unique_ptr<RecordReader> CacheRecords(std::unique_ptr<RecordReader> reader,
                                           std::shared_ptr<FileCache> cache);

}  // namespace crema
