// Targets that are files of data sets.
#include <algorithm>
#include <stdexcept>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "data/batches/annotated_batches.h"
#include "data/batches/window_batches.h"
#include "data/image/image_jpeg.h"
#include "data/lists/image_list.h"
#include "data/lists/window_file.h"
#include "data/records/lmdb.h"
#include "data/records/record_db.h"
#include "data/records/tar_shards.h"
#include "support/fuzz_limits.h"
#include "support/fuzz_targets.h"
#include "support/temp_dir.h"
#ifdef CREMA_HAVE_HDF5
#include "crema.pb.h"
#include "data/hdf5/hdf5_rows.h"
#endif

namespace crema::test {
namespace {

constexpr ColorMode kModes[] = {ColorMode::kAsStored, ColorMode::kColor, ColorMode::kGray};
constexpr int64_t kMostPixels = int64_t{1} << 22;  // of images that are looked at closely

// Checks a property that holds for all files.
void Require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

[[maybe_unused]] RandomStream DrawsFrom(std::string_view bytes) {
  return RandomStream(1, HashName(bytes));
}

#ifdef CREMA_HAVE_JPEG
// Decodes a part at a position drawn from the bytes. The rest is not decoded, so a part may be
// valid where the whole image is not; if both are, they are equal.
void TryPart(std::string_view bytes, ColorMode mode) {
  const Shape shape = JpegFile(bytes, mode, "jpeg").shape();
  if (shape.count() > kMostPixels) return;
  const RandomStream random = DrawsFrom(bytes);
  ImagePart part;
  part.height = 1 + static_cast<int>(random.Below(0, static_cast<uint32_t>(shape[1])));
  part.width = 1 + static_cast<int>(random.Below(1, static_cast<uint32_t>(shape[2])));
  const auto spare = [&](int64_t side, int taken) {
    return static_cast<uint32_t>(side - taken + 1);
  };
  part.top = static_cast<int>(random.Below(2, spare(shape[1], part.height)));
  part.left = static_cast<int>(random.Below(3, spare(shape[2], part.width)));
  PackedImage cut;
  JpegFile(bytes, mode, "jpeg").Decode(part, &cut);
  PackedImage whole;
  JpegFile(bytes, mode, "jpeg")
      .Decode({0, 0, static_cast<int>(shape[1]), static_cast<int>(shape[2])}, &whole);
  const auto row = static_cast<size_t>(part.width) * static_cast<size_t>(cut.channels);
  for (int y = 0; y < part.height; ++y) {
    const auto* from =
        &whole.pixels[(static_cast<size_t>(part.top + y) * static_cast<size_t>(whole.width) +
                       static_cast<size_t>(part.left)) *
                      static_cast<size_t>(whole.channels)];
    Require(std::equal(from, from + row, &cut.pixels[static_cast<size_t>(y) * row]),
            "a part of a JPEG differs from the whole");
  }
}

void TrySmall(std::string_view bytes, ColorMode mode) {
  JpegFile jpeg(bytes, mode, "jpeg");
  if (jpeg.shape().count() > kMostPixels) return;
  jpeg.ShrinkTowards(5, 5);
  Image image;
  jpeg.Decode(&image);
}
#endif

#ifdef CREMA_HAVE_OPENCV
TransformationParameter Augmentations() {
  TransformationParameter transform;
  transform.mutable_resize_param()->set_height(6);
  transform.mutable_resize_param()->set_width(7);
  transform.mutable_expand_param()->set_prob(0.5f);
  transform.mutable_expand_param()->set_max_expand_ratio(3);
  DistortionParameter& colours = *transform.mutable_distort_param();
  colours.set_brightness_prob(0.5f);
  colours.set_brightness_delta(32);
  return transform;
}

void TryAugmentations(const PixelView& pixels, const std::vector<AnnotatedBox>& objects,
                      std::string_view bytes) {
  static const TransformationParameter transform = Augmentations();
  static const auto transformer =
      std::make_shared<const Transformer>(transform, TRAIN, "fuzz", TransformSteps::kAnnotated);
  AnnotatedDataParameter annotated;
  annotated.add_batch_sampler()->mutable_sampler()->set_min_scale(0.3f);
  annotated.mutable_batch_sampler(0)->set_max_trials(5);
  const int64_t count = pixels.shape().count();
  if (pixels.bytes == nullptr || count > kMostPixels) return;
  AnnotatedImage sample{
      {pixels.channels, pixels.height, pixels.width, {pixels.bytes, pixels.bytes + count}},
      objects};
  Augmenter(transform, annotated, transformer).Apply(Draws(DrawsFrom(bytes)), &sample);
  Require(sample.image.height == 6 && sample.image.width == 7, "an image is not resized");
}
#endif

}  // namespace

std::string TryImage(std::string_view bytes) {
  const std::string name = "image";
  std::string error;
  for (const ColorMode mode : kModes) {
    error = ErrorOf([&] {
      Image image;
      DecodeImage(bytes, mode, name, &image);
      const auto pixels = static_cast<int64_t>(image.pixels.size());
      Require(pixels == Shape{image.channels, image.height, image.width}.count(),
              "an image has not as many pixels as it says");
    });
#ifdef CREMA_HAVE_JPEG
    if (!IsJpeg(bytes)) continue;
    ErrorOf([&] { TryPart(bytes, mode); });
    ErrorOf([&] { TrySmall(bytes, mode); });
#endif
  }
  return error;
}

std::string TryAnnotated(std::string_view bytes) {
  return ErrorOf([&] {
    AnnotatedDatumReader reader("set", ColorMode::kAsStored);
    const uint64_t boxes = CountBoxes(bytes);
    [[maybe_unused]] const PixelView pixels = reader.Read("key", bytes);
    Require(reader.objects().size() == boxes,
            "boxes are counted in another way than they are read");
#ifdef CREMA_HAVE_OPENCV
    TryAugmentations(pixels, reader.objects(), bytes);
#endif
  });
}

std::string TryTar(std::string_view bytes) {
  const TempDir folder;
  const std::string path = folder.Write("set.tar", std::string(bytes));
  return ErrorOf([&] {
    const auto reader = OpenTarShards(path);
    Require(reader->count() <= bytes.size() / 512, "there are more samples than headers");
    DatumReader datums("set");
    for (uint64_t n = 0; n < reader->count(); ++n) {
      ErrorOf([&] {
        const KeyedRecord record = reader->Next();
        Require(datums.FindFile(record.key, record.value).size() <= bytes.size(),
                "a file is larger than its archive");
      });
    }
  });
}

std::string TryLmdb(std::string_view bytes) {
  const TempDir folder;
  folder.Write("data.mdb", std::string(bytes));
  return ErrorOf([&] {
    LmdbReader reader(folder.path());
    Require(reader.count() <= bytes.size() / 12, "there are more records than room for them");
    uint64_t sum = 0;
    for (uint64_t n = 0; n < 2 * reader.count(); ++n) {
      const LmdbRecord record = n < reader.count() ? reader.Next() : reader.At(n - reader.count());
      Require(!record.key.empty() && record.value.size() <= bytes.size(),
              "a record is larger than its file");
      for (const char c : record.value) sum += static_cast<uint8_t>(c);
    }
    Require(sum <= 2 * 255 * reader.count() * bytes.size(), "values are larger than their file");
  });
}

// The first byte says how the rest is read.
std::string TryList(std::string_view bytes) {
  if (bytes.empty()) return "nothing";
  const auto how = static_cast<uint8_t>(bytes[0]);
  const TempDir folder;
  const std::string path =
      folder.Write(how & 1 ? "list.csv" : "list.txt", std::string(bytes.substr(1)));
  return ErrorOf([&] {
    const ImageList list(path, "", how / 2 % 4);
    for (size_t i = 0; i < list.entries().size(); ++i) {
      for (size_t k = 0; k < list.label_count(); ++k) list.Label(i, k);
      list.Name(list.entries()[i]);
    }
  });
}

std::string TryWindows(std::string_view bytes) {
  const TempDir folder;
  const std::string path = folder.Write("windows", std::string(bytes));
  return ErrorOf([&] {
    const WindowFile file = ReadWindowFile(path, "", {});
    for (const std::vector<LabelledWindow>* windows : {&file.foreground, &file.background}) {
      for (const LabelledWindow& window : *windows) {
        const WindowFile::Image& image = file.images.at(window.image);
        for (const WindowCropOptions& options :
             {WindowCropOptions{9, 0, false}, {9, 4, false}, {9, 4, true}, {227, 16, true}}) {
          const WindowPlacement place =
              PlaceWindow(window.box, image.height, image.width, window.label % 2 == 1, options);
          Require(place.height > 0 && place.width > 0 && place.top >= 0 && place.left >= 0 &&
                      place.top + place.height <= options.size &&
                      place.left + place.width <= options.size,
                  "a window is put outside of its sample");
          Require(place.part.x1 >= 0 && place.part.y1 >= 0 && place.part.x1 <= place.part.x2 &&
                      place.part.y1 <= place.part.y2 && place.part.x2 < image.width &&
                      place.part.y2 < image.height,
                  "a window is cut out of what is no image");
        }
      }
    }
  });
}

std::string TryHdf5Rows(std::string_view bytes) {
#ifdef CREMA_HAVE_HDF5
  const TempDir folder;
  folder.Write("rows.h5", std::string(bytes));
  const std::string list = folder.Write("list", folder.File("rows.h5"));
  std::string error;
  for (const bool shuffle : {false, true}) {
    error = ErrorOf([&] {
      Hdf5RowReader reader(Hdf5Set(list, {"data"}), {.shuffle = shuffle});
      const int64_t values = reader.set().row_shapes()[0].count();
      if (values > kMostPixels) return;
      std::vector<float> row(static_cast<size_t>(values));
      std::byte* const places[] = {reinterpret_cast<std::byte*>(row.data())};
      constexpr uint64_t kMostRows = 64;
      for (uint64_t n = 0; n < std::min(reader.set().rows(), kMostRows); ++n) {
        reader.Read(n, places);
      }
    });
  }
  return error;
#else
  static_cast<void>(bytes);
  return "this build has no HDF5";
#endif
}

}  // namespace crema::test
