#include "convert_db/record_change.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/image/image.h"
#include "data/records/datum.h"
#include "data/records/hdf5_records.h"

namespace crema::tools {
namespace {

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < ' ' || byte == 0x7F;
}

constexpr size_t kLongestName = 200;  // bytes; systems allow 255, including an extension

// Returns true if a key can be a sample name and survives unpacking unchanged.
bool IsSampleName(std::string_view key) {
  for (const std::string& part : Split(key, '/')) {
    if (part.empty() || part.size() > kLongestName) return false;
  }
  return std::ranges::none_of(
      key, [](char c) { return IsControl(c) || c == ' ' || c == '.' || c == '\\'; });
}

// Returns number, "_" and name; a name that begins with the number stays.
std::string Numbered(uint64_t index, std::string_view name) {
  const std::string number = RowKey(index);
  if (std::ranges::any_of(name, IsControl)) return number;  // binary keys
  const bool has_number = name == number || name.starts_with(number + "_");
  const std::string whole = has_number ? std::string(name) : StrCat(number, "_", name);
  return whole.substr(0, kLongestName);
}

std::string KeyFor(SetKind from, SetKind to, uint64_t index, std::string key) {
  if (to == SetKind::kHdf5) return RowKey(index);
  if (to == SetKind::kTar) return IsSampleName(key) ? std::move(key) : Numbered(index, key);
  return from == SetKind::kTar ? Numbered(index, key) : std::move(key);
}

void RefuseAnnotated(SetKind to, const std::string& source, const KeyedValue& record) {
  DatumView view;
  if (!DatumParser().Parse(record.value, &view) || !view.annotated) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat(RecordName(source, record.key), " is an AnnotatedDatum (an image with boxes): ",
              to == SetKind::kTar ? "tar shards" : "rows of HDF5",
              " hold labels, not boxes; LMDB and LevelDB take it"));
}

std::string RawToPng(const std::string& source, const KeyedValue& record) {
  DatumReader reader(source);
  if (!reader.FindFile(record.key, record.value).empty()) return record.value;
  const PixelView pixels = reader.Pixels(record.key);
  const bool image = pixels.bytes != nullptr && (pixels.channels == 1 || pixels.channels == 3);
  if (!image) return record.value;  // the writer reports the fault
  Datum datum;
  datum.ParseFromString(record.value);
  const Image planes{.channels = pixels.channels,
                     .height = pixels.height,
                     .width = pixels.width,
                     .pixels = {pixels.bytes, pixels.bytes + pixels.shape().count()}};
  datum.set_data(EncodeImage(planes, "png", 0));
  datum.set_encoded(true);
  return datum.SerializeAsString();
}

std::string FileToRaw(const std::string& source, const KeyedValue& record) {
  DatumReader reader(source);
  if (reader.FindFile(record.key, record.value).empty()) return record.value;
  const PixelView pixels = reader.Pixels(record.key);
  DatumView view;
  DatumParser().Parse(record.value, &view);
  Datum datum;
  datum.set_channels(pixels.channels);
  datum.set_height(pixels.height);
  datum.set_width(pixels.width);
  datum.set_data(pixels.bytes, static_cast<size_t>(pixels.shape().count()));
  if (view.has_label) datum.set_label(view.label);
  return datum.SerializeAsString();
}

}  // namespace

KeyedValue ChangeRecord(SetKind from, SetKind to, const std::string& source, uint64_t index,
                        KeyedValue record) {
  if (to == SetKind::kDatabase) {
    return {KeyFor(from, to, index, std::move(record.key)), std::move(record.value)};
  }
  RefuseAnnotated(to, source, record);
  std::string value;
  if (to == SetKind::kHdf5) {
    value = FileToRaw(source, record);
  } else {
#ifdef CREMA_HAVE_OPENCV
    value = RawToPng(source, record);
#else
    value = record.value;  // the writer makes PGM and PPM files
#endif
  }
  return {KeyFor(from, to, index, std::move(record.key)), std::move(value)};
}

}  // namespace crema::tools
