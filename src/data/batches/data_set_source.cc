#include "data/batches/data_set_source.h"

#include <algorithm>
#include <string_view>

namespace crema {

namespace {

using Kind = OrderOptions::Kind;

void GiveDecoded(const DecodedDatum& decoded, Record* record) {
  record->key = decoded.key;
  record->value = {};
}

}  // namespace

void KeepDecoded(const Record& record, const PixelView& image, int label,
                 std::span<const AnnotatedBox> objects, DecodedCache* cache) {
  if (image.bytes == nullptr) return;
  const auto pixels = static_cast<uint64_t>(image.shape().count());
  const DecodedDatum decoded{
      .key = std::string(record.key),
      .image = {image.channels, image.height, image.width, {image.bytes, image.bytes + pixels}},
      .label = label,
      .objects = {objects.begin(), objects.end()}};
  cache->Keep(record.entry, decoded, pixels + decoded.key.size() + objects.size_bytes());
}

void DataSetSource::Seek(uint64_t position) {
  // Held records can be returned again, up to those already returned.
  if (position < position_ || position >= held_end_) held_end_ = held_begin_;
  position_ = position;
  skip_ = 0;
  if (options_.order.kind == Kind::kInOrder) reader_->Seek(options_.shard.Ordinal(position));
}

void DataSetSource::Read(Record* record) {
  const uint64_t position = position_++;
  record->ordinal = options_.shard.Ordinal(position);
  switch (options_.order.kind) {
    case Kind::kInOrder:
      return ReadInOrder(record);
    case Kind::kShuffled:
      return ReadShuffled(record);
    case Kind::kBlocks:
      return ReadFromBlock(position, record);
  }
}

const DecodedDatum* DataSetSource::FindDecoded(uint64_t sample) const {
  return options_.decoded ? options_.decoded->Find(sample) : nullptr;
}

void DataSetSource::ReadShuffled(Record* record) {
  record->entry = Order().SampleAt(record->ordinal);
  if (const DecodedDatum* decoded = FindDecoded(record->entry)) {
    return GiveDecoded(*decoded, record);
  }
  Give(reader_->At(record->entry), record);
}

void DataSetSource::ReadInOrder(Record* record) {
  if (options_.decoded) {  // otherwise not needed, and a LevelDB avoids counting
    record->entry = record->ordinal % reader_->count();
    if (const DecodedDatum* decoded = FindDecoded(record->entry)) {
      skip_ += options_.shard.world;
      return GiveDecoded(*decoded, record);
    }
  }
  reader_->Skip(skip_);
  skip_ = options_.shard.world - 1;
  Give(reader_->Next(), record);
}

void DataSetSource::Give(const KeyedRecord& read, Record* record) const {
  if (reader_->persistent()) {  // points into the data set, without a copy
    record->key = read.key;
    record->value = read.value;
    return;
  }
  record->storage.assign(read.key).append(read.value);
  record->key = std::string_view(record->storage).substr(0, read.key.size());
  record->value = std::string_view(record->storage).substr(read.key.size());
}

SampleOrder& DataSetSource::Order() {
  if (!order_) order_.emplace(reader_->count(), options_.order);
  return *order_;
}

void DataSetSource::ReadFromBlock(uint64_t position, Record* record) {
  if (position < held_begin_ || position >= held_end_) LoadBlock(position);
  Held& held = held_[position - held_begin_];
  record->entry = Order().SampleAt(record->ordinal);
  if (held.decoded != nullptr) return GiveDecoded(*held.decoded, record);
  if (held.error) std::rethrow_exception(held.error);
  if (reader_->persistent()) return Give(held.persistent, record);
  record->storage.swap(held.storage);  // reuses its memory
  record->key = std::string_view(record->storage).substr(0, held.key_bytes);
  record->value = std::string_view(record->storage).substr(held.key_bytes);
}

// Reads this shard's records of a block, from `position` on, in storage order.
void DataSetSource::LoadBlock(uint64_t position) {
  held_end_ = held_begin_;
  const Shard& shard = options_.shard;
  const SampleOrder::Range range = Order().BlockOf(shard.Ordinal(position));
  const uint64_t end = shard.PositionFrom(range.end);
  struct Wanted {
    uint64_t sample;
    size_t place;  // index in held_
  };
  std::vector<Wanted> wanted;
  for (uint64_t p = position; p < end; ++p) {
    wanted.push_back({Order().SampleAt(shard.Ordinal(p)), static_cast<size_t>(p - position)});
  }
  std::ranges::sort(wanted, {}, &Wanted::sample);
  if (held_.size() < wanted.size()) held_.resize(wanted.size());
  for (const Wanted& want : wanted) {
    Held& held = held_[want.place];
    held.decoded = FindDecoded(want.sample);
    if (held.decoded != nullptr) continue;
    MoveReaderTo(want.sample);
    Hold(&held);
    reader_stands_ = (want.sample + 1) % Order().count();
  }
  held_begin_ = position;
  held_end_ = end;
}

void DataSetSource::MoveReaderTo(uint64_t sample) {
  const std::optional<uint64_t> stands = std::exchange(reader_stands_, std::nullopt);
  if (stands && *stands <= sample) {
    reader_->Skip(sample - *stands);
  } else {
    reader_->Seek(sample);
  }
}

// Stores a read error, which is thrown when its record is due.
void DataSetSource::Hold(Held* held) {
  held->error = nullptr;
  try {
    const KeyedRecord read = reader_->Next();
    if (reader_->persistent()) {
      held->persistent = read;
    } else {
      held->storage.assign(read.key).append(read.value);
      held->key_bytes = read.key.size();
    }
  } catch (...) {
    held->error = std::current_exception();
  }
}

}  // namespace crema
