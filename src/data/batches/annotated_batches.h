// Batches of images with boxes, augmented as SSD does. Needs OpenCV.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "crema.pb.h"
#include "data/augment/draws.h"
#include "data/batches/data_set_source.h"
#include "data/batches/sample_writer.h"
#include "data/image/image.h"
#include "data/pipeline/prefetcher.h"
#include "data/records/annotated_datum.h"

namespace crema {

// The boxes of one sample as numbers: how many, then kBoxValues for each, then whatever.
constexpr int64_t kBoxValues = 7;  // label, instance, xmin, ymin, xmax, ymax, difficult

// An image and the boxes in it, while it is changed.
struct AnnotatedImage {
  Image image;
  std::vector<ObjectBox> objects;
};

// What SSD does to a sample before the crop, mirror, mean and scale of Transformer: colours, larger
// canvas, random crop, resizing, noise. A function of the image and the draws.
// Thread safety: const.
class Augmenter {
 public:
  Augmenter(const TransformationParameter& transform, const AnnotatedDataParameter& annotated,
            std::shared_ptr<const Transformer> transformer)
      : transform_(transform), annotated_(annotated), transformer_(std::move(transformer)) {}

  // Whether there is anything to do at all.
  bool HasWork() const;
  void Apply(Draws draws, AnnotatedImage* sample) const;
  const EmitConstraint* constraint() const {
    return transform_.has_emit_constraint() ? &transform_.emit_constraint() : nullptr;
  }

 private:
  void Expand(Draws& draws, AnnotatedImage* sample) const;
  void CropRandomly(Draws& draws, AnnotatedImage* sample) const;
  void ResizeAll(Draws& draws, AnnotatedImage* sample) const;

  const TransformationParameter transform_;
  const AnnotatedDataParameter annotated_;
  const std::shared_ptr<const Transformer> transformer_;
};

class AnnotatedDecoder final : public SampleDecoder {
 public:
  struct Options {
    std::string data_set;
    bool boxes = true;      // false: labels of the images
    uint64_t capacity = 0;  // boxes of one sample
    std::set<int> labels;   // those that are known; empty: all
  };
  // `cache` may be null.
  AnnotatedDecoder(Options options, std::shared_ptr<const Augmenter> augmenter, SampleWriter writer,
                   std::shared_ptr<DecodedCache> cache = nullptr);

  // places[0] takes the image; places[1], where there is one, boxes or the label. Throws kDataLoss,
  // naming the record.
  void Decode(const Record& record, std::span<std::byte* const> places) override;

 private:
  // What a record holds, before random steps.
  struct Stored {
    PixelView pixels;
    std::span<const ObjectBox> objects;
    int label = 0;
    bool cached = false;
  };

  // Valid until the next call.
  Stored Find(const Record& record);
  std::string Name(const Record& record) const { return RecordName(options_.data_set, record.key); }
  PixelView Augment(const Record& record, const Stored& stored);
  // Puts a copy into sample_, unless it is that already.
  void TakeImage(const Record& record, const PixelView& pixels);
  void CheckLabels(const Record& record, std::span<const ObjectBox> objects) const;
  void WriteBoxes(const Record& record, const PixelView& pixels,
                  const Transformer::Placement& place, std::byte* out);

  const Options options_;
  const std::shared_ptr<const Augmenter> augmenter_;
  SampleWriter writer_;
  const std::shared_ptr<DecodedCache> cache_;
  AnnotatedDatumReader reader_;
  AnnotatedImage sample_;
};

}  // namespace crema
