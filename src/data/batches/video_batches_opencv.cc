#include <limits>

#include "core/error.h"
#include "core/strings.h"
#include "data/batches/video_batches.h"
#include "format/file.h"

namespace crema {
namespace {

// True for AVI and MP4, which store a frame count. For others OpenCV estimates it from the
// duration.
bool HeaderCountsFrames(const std::string& file) {
  const std::string start = ReadFileStart(file, 8);
  return start.starts_with("RIFF") || (start.size() == 8 && start.ends_with("ftyp"));
}

// Throws for a truncated video. Tolerates a few missing frames: cameras drop some, and editors cut
// videos without correcting the count.
void CheckLength(const VideoOrigin& origin, uint64_t frames, uint64_t promised) {
  if (frames == 0) Fail(ErrorCode::kDataLoss, StrCat(origin.Name(), " has no frames"));
  if (frames >= promised - promised / 10 || !HeaderCountsFrames(origin.file)) return;
  Fail(ErrorCode::kDataLoss, StrCat(origin.Name(), " is truncated or damaged: only ", frames,
                                    " of its ", promised, " frames can be read"));
}

}  // namespace

void VideoSource::Open() {
  reader_ = std::make_unique<VideoReader>(origin_);
  next_ = 0;
}

void VideoSource::Read(Record* record) {
  if (!reader_) Open();
  record->ordinal = shard_.Ordinal(position_);
  if (origin_.is_camera()) {
    GrabFromCamera();
    record->entry = position_;
  } else {
    record->entry = SeekToSample(record->ordinal);
  }
  reader_->Retrieve(&record->storage);
  record->value = record->storage;
  ++position_;
}

std::string VideoSource::Name(const Record& record) const {
  const std::string video = origin_.is_camera() ? origin_.Name() : origin_.file;
  return StrCat(video, " frame ", record.entry);
}

// Returns the number of the frame.
uint64_t VideoSource::SeekToSample(uint64_t ordinal) {
  while (true) {
    const uint64_t sample = samples_ > 0 ? ordinal % samples_ : ordinal;
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    const uint64_t frame = sample > kMost / stride_ ? kMost : sample * stride_;
    if (frame < next_) Open();
    while (next_ <= frame && reader_->Grab()) ++next_;
    if (next_ > frame) return frame;
    // End of the video: now its length is known, and hence the position.
    CheckLength(origin_, next_, reader_->PromisedFrames());
    samples_ = (next_ - 1) / stride_ + 1;
    Open();
  }
}

void VideoSource::GrabFromCamera() {
  // The first frame is a sample, as for a video.
  const uint64_t count = next_ == 0 ? 1 : stride_;
  for (uint64_t i = 0; i < count; ++i) {
    if (!reader_->Grab()) Fail(ErrorCode::kIoFailure, StrCat(origin_.Name(), " gives no frame"));
  }
  next_ += count;
}

uint64_t SamplesInOnePass(const VideoOrigin& origin, uint32_t skip) {
  constexpr uint64_t kShort = 512;
  if (origin.is_camera()) return 0;
  VideoReader reader(origin);
  const uint64_t promised = reader.PromisedFrames();
  uint64_t frames = 0;
  if (promised > kShort && HeaderCountsFrames(origin.file)) frames = promised;
  if (promised > 0 && promised <= kShort) {
    while (reader.Grab()) ++frames;
    CheckLength(origin, frames, promised);
  }
  const uint64_t stride = uint64_t{skip} + 1;
  return frames / stride + (frames % stride > 0 ? 1 : 0);
}

Shape ShapeOfSample(const VideoOrigin& origin, uint32_t skip, ColorMode mode, uint64_t sample) {
  VideoSource source(origin, skip);
  source.Seek(sample);
  Record record;
  source.Read(&record);
  Image image;
  UnpackFrame(record.value, mode, &image);
  return {image.channels, image.height, image.width};
}

void VideoDecoder::Decode(const Record& record, std::span<std::byte* const> places) {
  UnpackFrame(record.value, mode_, &image_);
  const PixelView view{image_.channels, image_.height, image_.width, image_.pixels.data(), nullptr};
  const auto name = [&] { return StrCat(origin_.Name(), " (frame ", record.entry, ")"); };
  filler_.Write(view, record.ordinal, name, places[0], filler_.PlacementOf(places));
  if (std::byte* to = filler_.LabelOf(places)) filler_.WriteLabel(0, name, to);
}

}  // namespace crema
