// Batches of the frames of a video or a camera.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "core/shape.h"
#include "data/batches/batch_filler.h"
#include "data/image/image.h"
#include "data/image/video_opencv.h"
#include "data/pipeline/prefetcher.h"
#include "data/pipeline/shuffle.h"

namespace crema {

// The frames of a video, skipping `skip` frames between two, wrapping around at the end. Seeks by
// reading from the start, since many codecs seek to key frames only. A camera returns its current
// frame for every position.
class VideoSource final : public RecordSource {
 public:
  // Each process that opens a camera is a single shard.
  VideoSource(VideoOrigin origin, uint32_t skip, Shard shard = {})
      : origin_(std::move(origin)), stride_(uint64_t{skip} + 1), shard_(shard) {}

  void Seek(uint64_t position) override { position_ = position; }
  // Opens the video on the first call. Throws like VideoReader; kDataLoss for a video that has no
  // frames or ends long before its header says; kIoFailure for a camera that returns no frame.
  void Read(Record* record) override;
  std::string Name(const Record& record) const override;

 private:
  void Open();
  uint64_t SeekToSample(uint64_t ordinal);
  void GrabFromCamera();

  const VideoOrigin origin_;
  const uint64_t stride_;  // distance of frames that are used
  const Shard shard_;
  std::unique_ptr<VideoReader> reader_;
  uint64_t position_ = 0;
  uint64_t next_ = 0;     // number of the next frame
  uint64_t samples_ = 0;  // in one pass; 0: unknown until the end
};

// Returns the number of samples in one pass; 0 if unknown, or for a camera. Counts the frames of
// short videos; uses the frame count in the header of long ones if it has one. Throws like
// VideoSource.
uint64_t SamplesInOnePass(const VideoOrigin& origin, uint32_t skip);

// Returns the shape (C x H x W) of sample `sample`. Throws like VideoSource.
Shape ShapeOfSample(const VideoOrigin& origin, uint32_t skip, ColorMode mode, uint64_t sample);

class VideoDecoder final : public SampleDecoder {
 public:
  VideoDecoder(VideoOrigin origin, ColorMode mode, BatchFiller filler)
      : origin_(std::move(origin)), mode_(mode), filler_(std::move(filler)) {}

  // Like DatumDecoder::Decode; the label is 0.
  void Decode(const Record& record, std::span<std::byte* const> places) override;

 private:
  const VideoOrigin origin_;
  const ColorMode mode_;
  BatchFiller filler_;
  Image image_;
};

}  // namespace crema
