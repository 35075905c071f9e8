#include "data/datum_batches.h"

namespace crema {

void LmdbSource::Seek(uint64_t position) {
  position_ = position;
  reader_.Seek(shard_.Ordinal(position));
}

void LmdbSource::Read(Record* record) {
  const LmdbRecord read = reader_.Next();
  // LMDB's values stay in the mapped file, so nothing is copied here.
  record->ordinal = shard_.Ordinal(position_++);
  record->key = read.key;
  record->value = read.value;
  for (uint64_t other = 1; other < shard_.world; ++other) reader_.Next();
}

void DatumDecoder::Decode(const Record& record, std::span<std::byte* const> places) {
  const auto name = [&] { return RecordName(data_set_, record.key); };
  const std::string_view file = reader_.FindFile(record.key, record.value);
  if (file.empty()) {
    writer_.Write(reader_.Pixels(record.key), record.ordinal, name, places[0]);
  } else {
    writer_.WriteEncoded(file, writer_.transformer().color_mode(), record.ordinal, name, places[0]);
  }
  if (places.size() > 1) writer_.WriteLabel(reader_.label(), places[1]);
}

}  // namespace crema
