// Batches of images and labels from a data set of Datum records.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "data/batches/batch_filler.h"
#include "data/batches/data_set_source.h"
#include "data/pipeline/prefetcher.h"
#include "data/records/datum.h"

namespace crema {

// Decodes and transforms records to samples of one shape.
class DatumDecoder final : public SampleDecoder {
 public:
  // `cache` may be null.
  DatumDecoder(const std::string& data_set, BatchFiller filler,
               std::shared_ptr<DecodedCache> cache = nullptr)
      : data_set_(data_set),
        filler_(std::move(filler)),
        cache_(std::move(cache)),
        reader_(data_set, filler_.transformer().color_mode()) {}

  // Writes the image to places[0] and the label to places[1] if it exists. Throws what DatumReader
  // throws, and kDataLoss, naming the record, for an image of another shape.
  void Decode(const Record& record, std::span<std::byte* const> places) override;

 private:
  // Decodes through the cache.
  void DecodeOnce(const Record& record, std::span<std::byte* const> places);
  std::string NameOf(const Record& record) const { return RecordName(data_set_, record.key); }

  const std::string data_set_;
  BatchFiller filler_;
  const std::shared_ptr<DecodedCache> cache_;
  DatumReader reader_;
};

}  // namespace crema
