#include "data/records/cached_records.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

namespace crema {
namespace {

// Format: value, key, length of the key.
std::string Pack(const KeyedRecord& record) {
  const auto key_bytes = static_cast<uint32_t>(record.key.size());
  std::string packed;
  packed.reserve(record.value.size() + record.key.size() + sizeof key_bytes);
  packed.append(record.value).append(record.key);
  packed.append(reinterpret_cast<const char*>(&key_bytes), sizeof key_bytes);
  return packed;
}

KeyedRecord Unpack(std::string_view packed) {
  uint32_t key_bytes = 0;
  packed.remove_suffix(sizeof key_bytes);
  std::memcpy(&key_bytes, packed.data() + packed.size(), sizeof key_bytes);
  const size_t value_bytes = packed.size() - key_bytes;
  return {packed.substr(value_bytes), packed.substr(0, value_bytes)};
}

class CachedRecords final : public RecordReader {
 public:
  CachedRecords(std::unique_ptr<RecordReader> reader, std::shared_ptr<FileCache> cache)
      : reader_(std::move(reader)), cache_(std::move(cache)) {}

  uint64_t count() const override { return reader_->count(); }
  bool persistent() const override { return reader_->persistent(); }
  bool labelled() const override { return reader_->labelled(); }
  bool annotated() const override { return reader_->annotated(); }

  KeyedRecord Next() override {
    const uint64_t ordinal = next_;
    Skip(1);
    if (const std::string* kept = cache_->Find(ordinal)) return Unpack(*kept);
    const std::optional<uint64_t> stands = std::exchange(stands_, std::nullopt);
    if (stands && *stands <= ordinal) {
      reader_->Skip(ordinal - *stands);
    } else {
      reader_->Seek(ordinal);
    }
    const KeyedRecord record = reader_->Next();
    stands_ = next_;
    Keep(ordinal, record);
    return record;
  }

  void Seek(uint64_t ordinal) override { next_ = ordinal % count(); }
  void Skip(uint64_t records) override { next_ = (next_ + records % count()) % count(); }

  KeyedRecord At(uint64_t ordinal) override {
    if (const std::string* kept = cache_->Find(ordinal)) return Unpack(*kept);
    const KeyedRecord record = reader_->At(ordinal);
    Keep(ordinal, record);
    return record;
  }

  std::unique_ptr<RecordReader> Clone() const override {
    return std::make_unique<CachedRecords>(reader_->Clone(), cache_);
  }

 private:
  void Keep(uint64_t ordinal, const KeyedRecord& record) {
    const std::string packed = Pack(record);
    cache_->Keep(ordinal, packed, packed.size());
  }

  const std::unique_ptr<RecordReader> reader_;
  const std::shared_ptr<FileCache> cache_;
  uint64_t next_ = 0;
  std::optional<uint64_t> stands_;  // position of the reader, if known
};

}  // namespace

std::unique_ptr<RecordReader> CacheRecords(std::unique_ptr<RecordReader> reader,
                                           std::shared_ptr<FileCache> cache) {
  return std::make_unique<CachedRecords>(std::move(reader), std::move(cache));
}

}  // namespace crema
