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
#include "data/batches/batch_filler.h"
#include "data/batches/data_set_source.h"
#include "data/image/image.h"
#include "data/pipeline/prefetcher.h"
#include "data/records/annotated_datum.h"

namespace crema {

// Layout of a sample's boxes: their count, then kBoxValues numbers each; the rest is undefined.
constexpr int64_t kBoxValues = 7;  // label, instance, xmin, ymin, xmax, ymax, difficult

// An image and its boxes while they are augmented.
struct AnnotatedImage {
  Image image;
  std::vector<AnnotatedBox> objects;
};

// SSD's augmentation, which precedes the crop, mirror, mean and scale of Transformer: colours,
// larger canvas, random crop, resizing, noise. Depends on the image and the draws only. Thread
// safety: const.
class Augmenter {
 public:
  Augmenter(const TransformationParameter& transform, const AnnotatedDataParameter& annotated,
            std::shared_ptr<const Transformer> transformer)
      : transform_(transform), annotated_(annotated), transformer_(std::move(transformer)) {}

  // Returns false if every step is off.
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
    bool boxes = true;      // false: image labels
    uint64_t capacity = 0;  // maximum boxes of one sample
    std::set<int> labels;   // known labels; empty: all
  };
  // `cache` may be null.
  AnnotatedDecoder(Options options, std::shared_ptr<const Augmenter> augmenter, BatchFiller filler,
                   std::shared_ptr<DecodedCache> cache = nullptr);

  // Writes the image to places[0], and boxes or the label to places[1] if it exists. Throws
  // kDataLoss, naming the record.
  void Decode(const Record& record, std::span<std::byte* const> places) override;

 private:
  // A record's image and objects before random steps.
  struct Stored {
    PixelView pixels;
    std::span<const AnnotatedBox> objects;
    int label = 0;
    bool cached = false;
  };

  // Valid until the next call.
  Stored Find(const Record& record);
  std::string Name(const Record& record) const { return RecordName(options_.data_set, record.key); }
  PixelView Augment(const Record& record, const Stored& stored);
  // Copies the image to sample_ unless it is there already.
  void TakeImage(const Record& record, const PixelView& pixels);
  void CheckLabels(const Record& record, std::span<const AnnotatedBox> objects) const;
  void WriteBoxes(const Record& record, const PixelView& pixels,
                  const Transformer::Placement& place, std::byte* out);

  const Options options_;
  const std::shared_ptr<const Augmenter> augmenter_;
  BatchFiller filler_;
  const std::shared_ptr<DecodedCache> cache_;
  AnnotatedDatumReader reader_;
  AnnotatedImage sample_;
};

}  // namespace crema
