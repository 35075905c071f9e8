// Bounds of the number of boxes per sample and batch, for memory planning.
#pragma once

#include <cstdint>
#include <vector>

#include "data/pipeline/shuffle.h"
#include "data/records/record_db.h"

namespace crema {

struct BoxBounds {
  uint64_t record = 0;  // most boxes of one record
  uint64_t batch = 0;   // most boxes of a batch
};

// Returns bounds for `batch` consecutive samples of a shard, wherever the batch begins. `boxes` has
// the count of each record, in order. Requires: not empty.
BoxBounds BoundBoxes(std::vector<uint64_t> boxes, uint64_t batch, OrderOptions::Kind order,
                     const Shard& shard);

// Does the same for AnnotatedDatums. Reads all of them without decoding images; damaged records
// count as 0 boxes. Throws what the reader throws.
BoxBounds FindBoxBounds(RecordReader& reader, uint64_t batch, OrderOptions::Kind order,
                        const Shard& shard);

}  // namespace crema
