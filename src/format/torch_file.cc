#include "format/torch_file.h"

#include <functional>
#include <map>
#include <optional>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/safetensors.h"
#include "format/sniff.h"
#include "format/zip_file.h"

namespace crema {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kOldStart =
    "\x80\x02\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19."sv;

// Tensors of a pickle, whose storages a function reads.
class TorchStateDict : public StateDict {
 public:
  using StateDict::StateDict;

  Tensor Read(size_t index) override {
    const PickledTensor& tensor = tensors_.at(index);
    const PickledStorage& storage = pickle_.storages[tensor.storage];
    if (storage.key != last_key_) {  // several tensors may be views of one storage
      last_.clear();
      last_ = ReadStorage(tensor.storage);
      last_key_ = storage.key;
    }
    return ToF32({.type = tensor.type,
                  .shape = tensor.shape,
                  .offset = tensor.offset,
                  .strides = tensor.strides},
                 last_);
  }

 protected:
  // Returns the bytes of a storage, as many as it has elements.
  virtual std::string ReadStorage(size_t storage) = 0;

  // Requires: `pickle_` was read.
  void Choose(const std::string& key) {
    PickledStateDict found = FindStateDict(pickle_, key, path());
    key_ = std::move(found.key);
    for (auto& [name, tensor] : found.tensors) {
      const PickledTensor& t = pickle_.tensors[tensor];
      entries_.push_back({std::move(name), t.type, t.shape});
      tensors_.push_back(t);
    }
  }

  uint64_t BytesOf(size_t storage) const {
    return pickle_.storages[storage].count * SizeOf(pickle_.storages[storage].type);
  }

  std::string bytes_;  // that the pickle refers to
  Pickle pickle_;
  std::vector<PickledTensor> tensors_;  // by entry

 private:
  std::string last_;
  std::optional<std::string_view> last_key_;
};

class OldTorchFile final : public TorchStateDict {
 public:
  OldTorchFile(const std::string& path, const std::string& key)
      : TorchStateDict(path), file_(path) {
    Skip();  // the magic number
    const Pickle protocol = Skip();
    if (protocol.values[protocol.root].number != 1001) Damaged("its version is not 1001");
    CheckByteOrder(Skip());
    bytes_ = Next();
    pickle_ = ReadPickle(bytes_, path);
    at_ += pickle_.size;
    PlaceStorages();
    Choose(key);
  }

 private:
  [[noreturn]] void Damaged(const std::string& what) const {
    Fail(ErrorCode::kDataLoss, StrCat("is not a complete file of torch.save: ", what),
         {.file = path()});
  }

  std::string Next() const { return file_.Read(at_, kMostPickleBytes + kMostPickledText); }

  Pickle Skip() {
    constexpr size_t kMost = 1 << 16;
    header_ = file_.Read(at_, kMost);
    Pickle pickle = ReadPickle(header_, path());
    at_ += pickle.size;
    return pickle;
  }

  void CheckByteOrder(const Pickle& info) const {
    const std::vector<uint32_t>& items = info.values[info.root].items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (info.values[items[i]].text != "little_endian") continue;
      if (info.values[items[i + 1]].number == 1) return;
      Fail(ErrorCode::kUnsupported, "was written by a big-endian machine", {.file = path()});
    }
    Damaged("it does not tell the order of bytes");
  }

  // Keys in order, then for each the number of elements and the elements.
  void PlaceStorages() {
    const std::string text = Next();
    const Pickle keys = ReadPickle(text, path());
    at_ += keys.size;
    std::map<std::string_view, size_t> storages;
    for (size_t i = 0; i < pickle_.storages.size(); ++i) {
      const auto [at, added] = storages.emplace(pickle_.storages[i].key, i);
      const PickledStorage& first = pickle_.storages[at->second];
      if (!added && (first.count != pickle_.storages[i].count ||
                     SizeOf(first.type) != SizeOf(pickle_.storages[i].type))) {
        Damaged("one storage has two sizes");
      }
    }
    for (const uint32_t item : keys.values[keys.root].items) {
      const auto storage = storages.find(keys.values[item].text);
      if (storage == storages.end()) Damaged("it has elements outside of all tensors");
      PlaceStorage(storage->second);
    }
    for (const auto& [key, storage] : storages) {
      if (!places_.contains(key)) Damaged(StrCat("it has no elements for storage '", key, "'"));
    }
  }

  void PlaceStorage(size_t storage) {
    constexpr size_t kCount = 8;
    const PickledStorage& s = pickle_.storages[storage];
    const std::string count = file_.Read(at_, kCount);
    uint64_t number = 0;
    for (size_t i = count.size(); i-- > 0;) number = number << 8 | static_cast<uint8_t>(count[i]);
    if (count.size() != kCount || number != s.count ||
        BytesOf(storage) > file_.size() - at_ - kCount) {
      Damaged(StrCat("storage '", s.key, "' of ", s.count, " elements is cut off at byte ", at_));
    }
    places_[s.key] = at_ + kCount;
    at_ += kCount + BytesOf(storage);
  }

  std::string ReadStorage(size_t storage) override {
    std::string bytes = file_.Read(places_.at(pickle_.storages[storage].key), BytesOf(storage));
    if (bytes.size() != BytesOf(storage)) Damaged("it became shorter while it was read");
    return bytes;
  }

  const RandomFile file_;
  std::string header_;
  uint64_t at_ = 0;
  std::map<std::string_view, uint64_t> places_;
};

#ifdef CREMA_HAVE_ZIP

constexpr std::string_view kPickleFile = "data.pkl";

// A folder with data.pkl, data/<key> for each storage, byteorder, version.
class TorchZip final : public TorchStateDict {
 public:
  TorchZip(const std::string& path, const std::string& key)
      : TorchStateDict(path), zip_(path, "PyTorch") {
    FindFolder();
    if (Find("constants.pkl") != nullptr) {
      Fail(ErrorCode::kUnsupported,
           "is a TorchScript program (torch.jit.save); write the parameters alone: "
           "torch.save(model.state_dict(), ...)",
           {.file = path});
    }
    if (const ZipFile::Entry* order = Find("byteorder")) {
      if (order->size > kPickleFile.size() || zip_.Read(*order) != "little") {
        Fail(ErrorCode::kUnsupported, "was written by a big-endian machine", {.file = path});
      }
    }
    const ZipFile::Entry* pickle = Find(kPickleFile);
    CheckStored(*pickle);
    if (pickle->size > kMostPickleBytes) zip_.Damaged("its pickle is larger than 64 MiB");
    bytes_ = zip_.Read(*pickle);
    pickle_ = ReadPickle(bytes_, StrCat(path, ": ", pickle->name));
    for (size_t i = 0; i < pickle_.storages.size(); ++i) EntryOf(i);
    Choose(key);
  }

 private:
  void FindFolder() {
    for (const ZipFile::Entry& entry : zip_.entries()) {
      by_name_.emplace(entry.name, &entry);
      const size_t folder = entry.name.find('/') + 1;  // 0: there is none
      if (entry.name.substr(folder) == kPickleFile) folder_ = entry.name.substr(0, folder);
    }
    if (Find(kPickleFile) == nullptr) zip_.Damaged("it has no data.pkl");
  }

  const ZipFile::Entry* Find(std::string_view name) const {
    const auto found = by_name_.find(StrCat(folder_, name));
    return found == by_name_.end() ? nullptr : found->second;
  }

  // torch.save compresses nothing, so that sizes are those of the file.
  void CheckStored(const ZipFile::Entry& entry) const {
    if (entry.size == entry.compressed_size) return;
    Fail(ErrorCode::kUnsupported,
         StrCat("'", entry.name,
                "' is compressed, which torch.save does not do; load and save the "
                "file once more with PyTorch"),
         {.file = path()});
  }

  const ZipFile::Entry& EntryOf(size_t storage) const {
    const std::string_view key = pickle_.storages[storage].key.substr(0, 64);
    const ZipFile::Entry* entry = Find(StrCat("data/", key));
    if (entry == nullptr) zip_.Damaged(StrCat("it has no elements for storage '", key, "'"));
    CheckStored(*entry);
    if (entry->size < BytesOf(storage)) {
      zip_.Damaged(StrCat("'", entry->name, "' has ", entry->size, " bytes, and its tensors need ",
                          BytesOf(storage)));
    }
    return *entry;
  }

  std::string ReadStorage(size_t storage) override { return zip_.Read(EntryOf(storage)); }

  ZipFile zip_;
  std::string folder_;
  std::map<std::string, const ZipFile::Entry*> by_name_;
};

#endif

}  // namespace

bool LooksLikeOldTorchFile(std::string_view start) { return start.starts_with(kOldStart); }

std::unique_ptr<StateDict> OpenOldTorchFile(const std::string& path, const std::string& key) {
  return std::make_unique<OldTorchFile>(path, key);
}

std::unique_ptr<StateDict> OpenTorchZip(const std::string& path,
                                        [[maybe_unused]] const std::string& key) {
#ifdef CREMA_HAVE_ZIP
  return std::make_unique<TorchZip>(path, key);
#else
  Fail(ErrorCode::kUnsupported,
       "this build has no minizip, which files of torch.save need: build with -DCREMA_ZIP=ON, or "
       "write .safetensors",
       {.file = path});
#endif
}

std::unique_ptr<StateDict> OpenStateDict(const std::string& path, const std::string& key) {
  const std::string start = ReadFileStart(path, kSniffBytes);
  if (start.starts_with("PK\x03\x04")) return OpenTorchZip(path, key);
  if (LooksLikeOldTorchFile(start)) return OpenOldTorchFile(path, key);
  const Content content = Sniff(start);
  const bool named = path.ends_with(".safetensors");
  if (LooksLikeSafetensors(start, RandomFile(path).size()) || content == Content::kSafetensors ||
      (named && content == Content::kBinary)) {
    if (!key.empty() && key != ".") {
      Fail(ErrorCode::kInvalidArgument, "has no dicts within it; leave --key out", {.file = path});
    }
    return OpenSafetensors(path);
  }
  if (start.starts_with('\x80')) {
    Fail(ErrorCode::kUnsupported,
         "is a pickle, but not of torch.save; write torch.save(model.state_dict(), ...)",
         {.file = path});
  }
  Fail(ErrorCode::kDataLoss, DescribeWrongContent(content, "a .safetensors, .pth or .pt file"),
       {.file = path});
}

}  // namespace crema
