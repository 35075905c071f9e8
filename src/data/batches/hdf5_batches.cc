#include "data/batches/hdf5_batches.h"

#include <cstring>
#include <numeric>

namespace crema {

std::vector<size_t> RowBytes(const Hdf5Set& set, DType dtype) {
  std::vector<size_t> bytes;
  for (const Shape& row : set.row_shapes()) {
    bytes.push_back(static_cast<size_t>(row.count()) * SizeOf(dtype));
  }
  return bytes;
}

Hdf5Source::Hdf5Source(Hdf5Set set, Hdf5RowReader::Options options, Shard shard)
    : reader_(std::move(set), options),
      row_bytes_(RowBytes(reader_.set(), options.dtype)),
      places_(row_bytes_.size()),
      shard_(shard) {}

void Hdf5Source::Read(Record* record) {
  record->storage.resize(std::accumulate(row_bytes_.begin(), row_bytes_.end(), size_t{0}));
  auto* place = reinterpret_cast<std::byte*>(record->storage.data());
  for (size_t i = 0; i < places_.size(); ++i) {
    places_[i] = place;
    place += row_bytes_[i];
  }
  record->ordinal = shard_.Ordinal(position_);
  record->entry = reader_.Read(record->ordinal, places_);
  record->value = record->storage;
  ++position_;
}

void Hdf5Decoder::Decode(const Record& record, std::span<std::byte* const> places) {
  const char* from = record.value.data();
  for (size_t i = 0; i < places.size(); ++i) {
    std::memcpy(places[i], from, row_bytes_[i]);
    from += row_bytes_[i];
  }
}

}  // namespace crema
