#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/augment/canvas.h"
#include "data/augment/colour.h"
#include "data/augment/fit.h"
#include "data/augment/sampler.h"
#include "data/batches/annotated_batches.h"

namespace crema {

bool Augmenter::HasWork() const {
  return transform_.has_distort_param() || transform_.has_expand_param() ||
         annotated_.batch_sampler_size() > 0 || transform_.has_resize_param() ||
         transform_.has_noise_param();
}

void Augmenter::Apply(Draws draws, AnnotatedImage* sample) const {
  if (transform_.has_distort_param()) Distort(transform_.distort_param(), draws, &sample->image);
  if (transform_.has_expand_param()) Expand(draws, sample);
  if (annotated_.batch_sampler_size() > 0) CropRandomly(draws, sample);
  if (transform_.has_resize_param()) ResizeAll(draws, sample);
  if (transform_.has_noise_param()) AddNoise(transform_.noise_param(), draws, &sample->image);
}

void Augmenter::Expand(Draws& draws, AnnotatedImage* sample) const {
  const Image& image = sample->image;
  const PixelRect canvas = DrawCanvas(transform_.expand_param(), image.height, image.width, draws);
  if (canvas.height == image.height && canvas.width == image.width) return;
  // The canvas in units of the image.
  const Box window = BoxOf(
      {.top = -canvas.top, .left = -canvas.left, .height = canvas.height, .width = canvas.width},
      image.height, image.width);
  sample->objects = ProjectObjects(sample->objects, window, constraint());
  std::vector<uint8_t> fill;
  for (int c = 0; c < image.channels; ++c) {
    const float mean = std::clamp(transformer_->ChannelMean(c), 0.f, 255.f);
    fill.push_back(static_cast<uint8_t>(std::lround(mean)));
  }
  sample->image = PutOnCanvas(image, canvas, fill);
}

void Augmenter::CropRandomly(Draws& draws, AnnotatedImage* sample) const {
  const std::vector<Box> crops = DrawCrops(annotated_.batch_sampler(), sample->objects, draws);
  if (crops.empty()) return;
  const Image& image = sample->image;
  const PixelRect part =
      PixelsOf(crops[draws.Below(static_cast<uint32_t>(crops.size()))], image.height, image.width);
  sample->objects =
      ProjectObjects(sample->objects, BoxOf(part, image.height, image.width), constraint());
  sample->image = Crop(image, part);
}

void Augmenter::ResizeAll(Draws& draws, AnnotatedImage* sample) const {
  const ResizeParameter& resize = transform_.resize_param();
  const Fit fit = FitTo(resize, sample->image.height, sample->image.width);
  for (AnnotatedBox& object : sample->objects) object.box = FitBox(fit, object.box);
  sample->image = ResizeToFit(resize, sample->image, draws);
}

AnnotatedDecoder::AnnotatedDecoder(Options options, std::shared_ptr<const Augmenter> augmenter,
                                   BatchFiller filler, std::shared_ptr<DecodedCache> cache)
    : options_(std::move(options)),
      augmenter_(std::move(augmenter)),
      filler_(std::move(filler)),
      cache_(std::move(cache)),
      reader_(options_.data_set, filler_.transformer().color_mode()) {}

AnnotatedDecoder::Stored AnnotatedDecoder::Find(const Record& record) {
  if (cache_) {
    if (const DecodedDatum* kept = cache_->Find(record.entry)) {
      return {ViewOf(kept->image), kept->objects, kept->label, true};
    }
  }
  const PixelView pixels = reader_.Read(record.key, record.value);
  return {pixels, reader_.objects(), reader_.label(), false};
}

PixelView AnnotatedDecoder::Augment(const Record& record, const Stored& stored) {
  sample_.objects.assign(stored.objects.begin(), stored.objects.end());
  if (!augmenter_->HasWork()) return stored.pixels;
  TakeImage(record, stored.pixels);
  const uint64_t stream = MixBits(filler_.options().layer_id, HashName("augment"));
  augmenter_->Apply(Draws(RandomStream(filler_.options().seed, stream, record.ordinal)), &sample_);
  return ViewOf(sample_.image);
}

void AnnotatedDecoder::TakeImage(const Record& record, const PixelView& pixels) {
  if (pixels.bytes == nullptr) {
    Fail(ErrorCode::kDataLoss,
         StrCat(Name(record), " holds floats; resizing and changes of colour need bytes"));
  }
  CopyPixels(pixels, &sample_.image);
}

void AnnotatedDecoder::CheckLabels(const Record& record,
                                   std::span<const AnnotatedBox> objects) const {
  if (options_.labels.empty()) return;
  for (const AnnotatedBox& object : objects) {
    if (options_.labels.contains(object.label)) continue;
    Fail(ErrorCode::kDataLoss, StrCat(Name(record), " has a box of label ", object.label,
                                      ", which is not in label_map_file"));
  }
}

void AnnotatedDecoder::Decode(const Record& record, std::span<std::byte* const> places) {
  const Stored stored = Find(record);
  CheckLabels(record, stored.objects);
  PixelView pixels = Augment(record, stored);
  filler_.CheckShape(pixels.shape(), [&] { return Name(record); });
  filler_.CheckElements(pixels, [&] { return Name(record); });
  if (cache_ && !stored.cached) {
    KeepDecoded(record, stored.pixels, stored.label, stored.objects, cache_.get());
  }
  if (const SampleAugmenter* augmenter = filler_.AugmenterFor(pixels.shape())) {
    TakeImage(record, pixels);
    augmenter->Apply(record.ordinal, &sample_.image, &sample_.objects);
    pixels = ViewOf(sample_.image);
  }
  const Transformer& transformer = filler_.transformer();
  const Transformer::Placement place = transformer.Place(
      pixels, Transformer::SampleStream(filler_.options().seed, filler_.options().layer_id,
                                        record.ordinal));
  filler_.WriteAt(pixels, place, places[0], filler_.PlacementOf(places));
  std::byte* to = filler_.LabelOf(places);
  if (to == nullptr) return;
  if (options_.boxes) {
    WriteBoxes(record, pixels, place, to);
  } else {
    filler_.WriteLabel(
        stored.label, [&] { return Name(record); }, to);
  }
}

void AnnotatedDecoder::WriteBoxes(const Record& record, const PixelView& pixels,
                                  const Transformer::Placement& place, std::byte* out) {
  const Box window =
      BoxOf({.top = place.top, .left = place.left, .height = place.height, .width = place.width},
            pixels.height, pixels.width);
  const std::vector<AnnotatedBox> objects =
      ProjectObjects(sample_.objects, window, augmenter_->constraint());
  if (objects.size() > options_.capacity) {
    Fail(ErrorCode::kDataLoss,
         StrCat(Name(record), " has ", objects.size(), " boxes, more than any record had (",
                options_.capacity, ") when the net was built"));
  }
  DispatchFloat(filler_.options().label_dtype, [&]<typename T>(T) {
    T* value = reinterpret_cast<T*>(out);
    *value++ = static_cast<T>(objects.size());
    for (const AnnotatedBox& object : objects) {
      const Box box = place.mirror ? MirrorBox(object.box) : object.box;
      *value++ = static_cast<T>(object.label);
      *value++ = static_cast<T>(object.instance);
      for (const double corner : {box.xmin, box.ymin, box.xmax, box.ymax}) {
        *value++ = static_cast<T>(corner);
      }
      *value++ = object.difficult ? T(1) : T(0);
    }
  });
}

}  // namespace crema
