// Batches of the frames of a video or a camera.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "core/shape.h"
#include "data/batches/sample_writer.h"
#include "data/image/image.h"
#include "data/image/video_opencv.h"
#include "data/pipeline/prefetcher.h"
#include "data/pipeline/shuffle.h"

namespace crema {

// The frames of a video, `skip` left out between two; behind the last comes the first. A position
// is found by reading up to it from the start: many codecs seek to key frames only. Of a camera,
// what it shows now, wherever one seeks.
class VideoSource final : public RecordSource {
 public:
  // A camera has one shard for each process that opens it.
  VideoSource(VideoOrigin origin, uint32_t skip, Shard shard = {})
      : origin_(std::move(origin)), stride_(uint64_t{skip} + 1), shard_(shard) {}

  void Seek(uint64_t position) override { position_ = position; }
  // Opens with the first call. Throws as VideoReader; kDataLoss for a video without frames or one
  // that ends long before it should, kIoFailure for a camera that gives no frame.
  void Read(Record* record) override;
  std::string Name(const Record& record) const override;

 private:
  void Open();
  uint64_t GoToSample(uint64_t ordinal);
  void GoToNextOfCamera();

  const VideoOrigin origin_;
  const uint64_t stride_;  // from one frame that is used to the next
  const Shard shard_;
  std::unique_ptr<VideoReader> reader_;
  uint64_t position_ = 0;
  uint64_t next_ = 0;     // number of the frame that the next Grab gives
  uint64_t samples_ = 0;  // in one pass; 0 until the end was seen
};

// Samples in one pass: short videos are counted, of long ones a header that has a number of frames
// is believed. 0: unknown, or a camera. Throws as VideoSource.
uint64_t SamplesInOnePass(const VideoOrigin& origin, uint32_t skip);

// C x H x W of sample `sample`. Throws as VideoSource.
Shape ShapeOfSample(const VideoOrigin& origin, uint32_t skip, ColorMode mode, uint64_t sample);

class VideoDecoder final : public SampleDecoder {
 public:
  VideoDecoder(VideoOrigin origin, ColorMode mode, SampleWriter writer)
      : origin_(std::move(origin)), mode_(mode), writer_(std::move(writer)) {}

  // As DatumDecoder; the label is 0.
  void Decode(const Record& record, std::span<std::byte* const> places) override;

 private:
  const VideoOrigin origin_;
  const ColorMode mode_;
  SampleWriter writer_;
  Image image_;
};

}  // namespace crema
