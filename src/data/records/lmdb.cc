// The reader; the writer is in lmdb_writer.cc.
#include "data/records/lmdb.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/records/lmdb_file.h"

namespace crema {

bool LooksLikeLmdb(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path + "/data.mdb", ignored);
}

struct LmdbReader::Impl {
  explicit Impl(std::shared_ptr<const LmdbFile> opened)
      : file(std::move(opened)), walker(file.get(), file->records()) {}

  uint64_t count() const { return file->records().entries; }

  void Rewind() {
    walker = LmdbWalker(file.get(), file->records());
    leaf.clear();
    node = 0;
  }

  // Moves to the next leaf if `node` is past the end of `leaf`.
  void Reach() {
    if (node < leaf.count()) return;
    node = 0;
    if (walker.NextLeaf(&leaf)) return;
    Rewind();
    walker.NextLeaf(&leaf);
  }

  void Walk(uint64_t records) {
    while (records > 0) {
      Reach();
      const auto step = static_cast<unsigned>(std::min<uint64_t>(records, leaf.count() - node));
      node += step;
      records -= step;
    }
  }

  void FindPlaces() {
    if (!places.empty()) return;
    LmdbWalker all(file.get(), file->records());
    LmdbPage page;
    std::vector<LmdbPlace> found;
    found.reserve(count());
    while (all.NextLeaf(&page)) {
      for (unsigned n = 0; n < page.count(); ++n) found.push_back(file->Place(page, n));
    }
    places = std::move(found);
  }

  std::shared_ptr<const LmdbFile> file;
  std::vector<LmdbPlace> places;  // empty: not determined yet
  uint64_t next = 0;              // number of the next record
  // Position of the next record, used without `places`.
  LmdbWalker walker;
  LmdbPage leaf;
  unsigned node = 0;  // index in `leaf`; its count: the record is in the next leaf
};

LmdbReader::LmdbReader(const std::string& path)
    : impl_(std::make_unique<Impl>(std::make_shared<const LmdbFile>(path))) {
  if (count() == 0) {
    Fail(ErrorCode::kDataLoss, StrCat("the data set '", path, "' holds no records"));
  }
}

LmdbReader::LmdbReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LmdbReader::~LmdbReader() = default;
LmdbReader::LmdbReader(LmdbReader&&) noexcept = default;
LmdbReader& LmdbReader::operator=(LmdbReader&&) noexcept = default;

LmdbReader LmdbReader::Clone() const { return LmdbReader(std::make_unique<Impl>(impl_->file)); }

uint64_t LmdbReader::count() const { return impl_->count(); }

LmdbRecord LmdbReader::Next() {
  Impl& impl = *impl_;
  impl.file->CheckUnchanged();
  const uint64_t number = impl.next;
  if (impl.places.empty()) impl.Reach();
  impl.next = (number + 1) % count();
  return impl.file->Record(impl.places.empty() ? impl.file->Place(impl.leaf, impl.node++)
                                               : impl.places[number]);
}

void LmdbReader::Seek(uint64_t ordinal) {
  impl_->next = 0;
  if (impl_->places.empty()) impl_->Rewind();
  Skip(ordinal);
}

void LmdbReader::Skip(uint64_t records) {
  impl_->file->CheckUnchanged();
  records %= count();
  if (impl_->places.empty()) impl_->Walk(records);
  impl_->next = (impl_->next + records) % count();
}

LmdbRecord LmdbReader::At(uint64_t ordinal) {
  CREMA_CHECK(ordinal < count());
  impl_->file->CheckUnchanged();
  impl_->FindPlaces();
  return impl_->file->Record(impl_->places[ordinal]);
}

}  // namespace crema
