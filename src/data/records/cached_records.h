// Caches records in memory.
#pragma once

#include <memory>

#include "data/pipeline/bounded_cache.h"
#include "data/records/record_db.h"

namespace crema {

// Returns a reader that caches records by number. Cached records do not access the data set.
std::unique_ptr<RecordReader> CacheRecords(std::unique_ptr<RecordReader> reader,
                                           std::shared_ptr<FileCache> cache);

}  // namespace crema
