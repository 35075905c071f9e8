// Batches of rows of HDF5 files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/hdf5/hdf5_rows.h"
#include "data/pipeline/prefetcher.h"
#include "data/pipeline/shuffle.h"

namespace crema {

// The rows of one shard in sequence. A record's value holds the row of each dataset.
class Hdf5Source final : public RecordSource {
 public:
  Hdf5Source(Hdf5Set set, Hdf5RowReader::Options options, Shard shard = {});

  void Seek(uint64_t position) override { position_ = position; }
  void Read(Record* record) override;
  std::string Name(const Record& record) const override { return reader_.set().Name(record.entry); }

 private:
  Hdf5RowReader reader_;
  const std::vector<size_t> row_bytes_;  // by dataset
  std::vector<std::byte*> places_;
  const Shard shard_;
  uint64_t position_ = 0;
};

// Copies the values to the outputs.
class Hdf5Decoder final : public SampleDecoder {
 public:
  explicit Hdf5Decoder(std::vector<size_t> row_bytes) : row_bytes_(std::move(row_bytes)) {}
  void Decode(const Record& record, std::span<std::byte* const> places) override;

 private:
  const std::vector<size_t> row_bytes_;
};

// Returns the bytes of one row, by dataset.
std::vector<size_t> RowBytes(const Hdf5Set& set, DType dtype);

}  // namespace crema
