#include "format/net_stream.h"

#include <algorithm>
#include <string_view>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/wire.h"

namespace crema {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Limit for names of layers, inputs and state. A larger file has another format.
constexpr size_t kMostOutsideLayers = size_t{1} << 26;

// Reads the bytes of the range in order, through a window.
class Cursor {
 public:
  Cursor(const RandomFile& file, const FileRange& range)
      : file_(file), at_(range.begin), end_(range.begin + range.size) {}

  uint64_t at() const { return at_; }
  uint64_t rest() const { return end_ - at_; }
  void Skip(uint64_t count) { at_ += count; }

  // Returns false at the end, or for a number of more than 64 bits.
  bool ReadVarint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ >= end_) return false;
      const auto byte = static_cast<unsigned char>(ByteAt(at_++));
      *value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  std::string Bytes(uint64_t begin, uint64_t most) const {
    return file_.Read(begin, static_cast<size_t>(std::min(most, end_ - begin)));
  }

 private:
  char ByteAt(uint64_t offset) {
    if (offset < window_at_ || offset >= window_at_ + window_.size()) {
      constexpr size_t kWindow = size_t{1} << 16;
      window_ = file_.Read(offset, kWindow);
      window_at_ = offset;
    }
    return window_.empty() ? '\0' : window_[static_cast<size_t>(offset - window_at_)];
  }

  const RandomFile& file_;
  uint64_t at_;
  uint64_t end_;
  std::string window_;
  uint64_t window_at_ = 0;
};

// One field at the top level of a message.
struct WireField {
  uint64_t number = 0;
  uint64_t begin = 0;  // offset of its tag
  uint64_t contents = 0;
  uint64_t size = 0;  // as stored; may reach beyond the end
  bool is_bytes = false;
};

bool ReadField(Cursor* cursor, WireField* field) {
  field->begin = cursor->at();
  uint64_t tag = 0;
  if (!cursor->ReadVarint(&tag) || tag >> 3 == 0 || tag >> 32 != 0) return false;
  field->number = tag >> 3;
  const uint64_t type = tag & 7;
  field->is_bytes = type == kBytes;
  uint64_t varint = 0;
  if ((type == kVarint || type == kBytes) && !cursor->ReadVarint(&varint)) return false;
  field->contents = cursor->at();
  if (type == kBytes) field->size = varint;
  if (type == kFixed64) field->size = 8;
  if (type == kFixed32) field->size = 4;
  return type == kVarint || type == kBytes || type == kFixed64 || type == kFixed32;
}

// The name precedes the blobs, so the start of a layer contains it.
template <typename Layer>
std::string NameIn(std::string_view bytes) {
  Layer layer;
  ParseBinary(bytes, &layer);
  if constexpr (std::is_same_v<Layer, V1LayerParameter>) {
    if (layer.has_layer()) return layer.layer().name();
  }
  return layer.name();
}

class NetReader {
 public:
  NetReader(const RandomFile& file, const FileRange& range) : cursor_(file, range) {}

  StreamedNet Run() {
    while (result_.damage.empty() && cursor_.rest() > 0) Step();
    NetParameter rest;
    if (!ParseBinary(outside_layers_, &rest) && result_.damage.empty()) {
      result_.damage = NoNet();
    }
    result_.net.MergeFrom(rest);  // without layers
    return std::move(result_);
  }

 private:
  void Step() {
    WireField field;
    if (!ReadField(&cursor_, &field)) {
      result_.damage = cursor_.rest() == 0 ? "is truncated" + After() : NoNet();
      return;
    }
    const bool is_new = field.number == NetParameter::kLayerFieldNumber && field.is_bytes;
    const bool is_old = field.number == NetParameter::kLayersFieldNumber && field.is_bytes;
    if (field.size > cursor_.rest()) {
      result_.damage = Truncated(field, is_new, is_old);
    } else if (is_new) {
      ReadLayer(field, result_.net.mutable_layer());
    } else if (is_old) {
      ReadLayer(field, result_.net.mutable_layers());
    } else if (outside_layers_.size() + field.size > kMostOutsideLayers) {
      result_.damage = NoNet();
    } else {
      cursor_.Skip(field.size);
      outside_layers_ += cursor_.Bytes(field.begin, cursor_.at() - field.begin);
    }
  }

  template <typename Layers>
  void ReadLayer(const WireField& field, Layers* layers) {
    auto* layer = layers->Add();
    const std::string start = cursor_.Bytes(field.contents, std::min(field.size, kEnoughForName));
    using Layer = std::remove_pointer_t<decltype(layer)>;
    if (field.size > kMaxFileBytes) {
      layers->RemoveLast();
      result_.damage = StrCat("cannot be read: layer \"", NameIn<Layer>(start), "\" has ",
                              field.size, " bytes, and protobuf takes at most 2 GiB of one layer");
      return;
    }
    const std::string contents =
        field.size <= start.size() ? start : cursor_.Bytes(field.contents, field.size);
    if (!ParseBinary(contents, layer)) {
      layers->RemoveLast();
      result_.damage = NoNet();
      return;
    }
    cursor_.Skip(field.size);
    last_layer_ = NameIn<Layer>(start);
  }

  std::string Truncated(const WireField& field, bool is_new, bool is_old) const {
    const std::string start = cursor_.Bytes(field.contents, kEnoughForName);
    const std::string name = is_new   ? NameIn<LayerParameter>(start)
                             : is_old ? NameIn<V1LayerParameter>(start)
                                      : "";
    const uint64_t have = field.contents + cursor_.rest();
    return StrCat("is truncated", name.empty() ? After() : StrCat(" within layer \"", name, "\""),
                  ": it has ", have, " bytes, and at least ", field.contents + field.size,
                  " are expected");
  }

  std::string After() const {
    return last_layer_.empty() ? " before the first layer"
                               : StrCat(" after layer \"", last_layer_, "\"");
  }
  std::string NoNet() const { return "is not a weights file, or damaged" + After(); }

  static constexpr uint64_t kEnoughForName = uint64_t{1} << 16;

  Cursor cursor_;
  StreamedNet result_;
  std::string outside_layers_;  // serialised
  std::string last_layer_;
};

}  // namespace

StreamedNet StreamNet(const RandomFile& file, const FileRange& range) {
  return NetReader(file, range).Run();
}

}  // namespace crema
