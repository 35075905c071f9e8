// How many boxes samples of a data set can have, which is what memory for them is planned by.
#pragma once

#include <cstdint>
#include <vector>

#include "data/pipeline/shuffle.h"
#include "data/records/record_db.h"

namespace crema {

struct BoxBounds {
  uint64_t record = 0;  // the most of one record
  uint64_t batch = 0;   // the most of a batch
};

// Bounds for `batch` samples in a row of a shard of records with so many boxes each, in this order,
// wherever the batch begins. Requires: records.
BoxBounds BoundBoxes(std::vector<uint64_t> boxes, uint64_t batch, OrderOptions::Kind order,
                     const Shard& shard);

// The same for AnnotatedDatums. Walks over all of them and looks at no image; those that are
// damaged count as without boxes. Throws what the reader throws.
BoxBounds FindBoxBounds(RecordReader& reader, uint64_t batch, OrderOptions::Kind order,
                        const Shard& shard);

}  // namespace crema
