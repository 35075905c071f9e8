#include "data/batches/window_batches.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/strings.h"
#include "data/augment/canvas.h"
#include "data/image/image.h"

namespace crema {
namespace {

std::string NameOf(const WindowFile& file, const LabelledWindow& window) {
  const WindowBox& box = window.box;
  return StrCat(file.images[window.image].path, " window ", box.x1, ",", box.y1, " to ", box.x2,
                ",", box.y2);
}

// One axis: an interval of the image, and how much clipping cut off at each end of the enlarged
// window.
struct Side {
  int begin = 0;
  int end = 0;  // inclusive
  int before = 0;
  int after = 0;
  int Length() const { return end - begin + 1; }
  int Whole() const { return Length() + before + after; }
};

Side Enlarge(double centre, double half, int size) {
  constexpr double kFar = 1e9;  // outside of any image, and the sum of two fits an int
  Side side{.begin = static_cast<int>(std::lround(std::max(centre - half, -kFar))),
            .end = static_cast<int>(std::lround(std::min(centre + half, kFar)))};
  side.before = std::max(0, -side.begin);
  side.after = std::max(0, side.end - size + 1);
  side.begin += side.before;
  side.end -= side.after;
  return side;
}

// Sample pixels: the length of the part, and the padding before it.
struct Warped {
  int length = 0;
  int before = 0;
};

Warped WarpOf(const Side& side, int free_pixels, int size) {
  const double scale = static_cast<double>(size) / side.Whole();
  Warped warped{.length = static_cast<int>(std::lround(side.Length() * scale)),
                .before = static_cast<int>(std::lround(free_pixels * scale))};
  // Rounding may exceed the sample by one pixel, or reduce a part of one pixel to nothing.
  warped.length = std::clamp(warped.length, 1, size);
  warped.before = std::min(warped.before, size - 1);
  warped.length = std::min(warped.length, size - warped.before);
  return warped;
}

}  // namespace

RandomStream WindowDraw::Stream(uint64_t ordinal) const {
  return RandomStream(options_.seed, MixBits(options_.layer_id, HashName("windows")), ordinal);
}

const LabelledWindow& WindowDraw::Window(uint64_t ordinal) const {
  const uint64_t place = ordinal / options_.shard.world % options_.batch;  // in the batch
  const bool foreground = place >= options_.batch - options_.foreground;
  const std::vector<LabelledWindow>& windows = foreground ? file_->foreground : file_->background;
  return windows[Stream(ordinal).Below(0, static_cast<uint32_t>(windows.size()))];
}

bool WindowDraw::Mirrored(uint64_t ordinal) const {
  return options_.mirror && Stream(ordinal).Below(1, 2) == 1;
}

void WindowSource::Read(Record* record) {
  record->ordinal = draw_.OrdinalAt(position_++);
  const WindowFile& file = draw_.file();
  record->entry = draw_.Window(record->ordinal).image;
  record->value = {};
  if (decoded_ && decoded_->Find(record->entry) != nullptr) return;
  files_.Announce(record->entry, file.images[record->entry].path);
}

std::string WindowSource::Name(const Record& record) const {
  return NameOf(draw_.file(), draw_.Window(record.ordinal));
}

// Errors name the window like WindowSource::Name.
std::string_view WindowDecoder::ReadFileOf(const LabelledWindow& window, const std::string& name) {
  try {
    return files_.Read(window.image, draw_.file().images[window.image].path, &storage_);
  } catch (const Error& error) {
    Fail(error.code(), StrCat(name, ": ", error.problems().front().message));
  }
}

const Image& WindowDecoder::ReadImage(const LabelledWindow& window) {
  const uint32_t number = window.image;
  const auto& cache = options_.caches.decoded;
  if (cache) {
    if (const Image* kept = cache->Find(number)) return *kept;
  }
  const WindowFile::Image& image = draw_.file().images[number];
  const std::string name = StrCat("'", NameOf(draw_.file(), window), "' (line ", image.line,
                                  " of '", draw_.file().source, "')");
  DecodeImage(ReadFileOf(window, name), image.channels == 1 ? ColorMode::kGray : ColorMode::kColor,
              name, &image_);
  if (image_.height != image.height || image_.width != image.width) {
    Fail(ErrorCode::kDataLoss,
         StrCat(name, " is ", image_.height, " high and ", image_.width,
                " wide, but the window file says ", image.height, " and ", image.width));
  }
  if (cache) cache->Keep(number, image_, image_.pixels.size());
  return image_;
}

float WindowDecoder::Mean(int channel, int y, int x) const {
  if (options_.mean) {
    const Shape& shape = options_.mean->shape;
    // The sample is centred on the mean image.
    const int64_t row = y + (shape[1] - options_.crop.size) / 2;
    const int64_t column = x + (shape[2] - options_.crop.size) / 2;
    return options_.mean
        ->values[static_cast<size_t>((channel * shape[1] + row) * shape[2] + column)];
  }
  if (options_.mean_values.empty()) return 0;
  return options_.mean_values[options_.mean_values.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

template <typename T>
void WindowDecoder::Fill(const Image& warped, const WindowPlacement& place, T* out) const {
  const int size = options_.crop.size;
  std::fill_n(
      out,
      static_cast<size_t>(size) * static_cast<size_t>(size) * static_cast<size_t>(warped.channels),
      T(0));
  const uint8_t* pixel = warped.pixels.data();
  for (int c = 0; c < warped.channels; ++c) {
    for (int y = place.top; y < place.top + warped.height; ++y) {
      T* row = out + (static_cast<ptrdiff_t>(c) * size + y) * size + place.left;
      for (int x = 0; x < warped.width; ++x) {
        const T mean = static_cast<T>(Mean(c, y, place.left + x));
        row[x] = (static_cast<T>(*pixel++) - mean) * static_cast<T>(options_.scale);
      }
    }
  }
}

void WindowDecoder::Decode(const Record& record, std::span<std::byte* const> places) {
  const LabelledWindow& window = draw_.Window(record.ordinal);
  const Image& image = ReadImage(window);
  const bool mirror = draw_.Mirrored(record.ordinal);
  const WindowPlacement place =
      PlaceWindow(window.box, image.height, image.width, mirror, options_.crop);
  Image warped =
      Resize(Crop(image, {place.part.y1, place.part.x1, place.part.y2 - place.part.y1 + 1,
                          place.part.x2 - place.part.x1 + 1}),
             place.height, place.width);
  if (mirror) Mirror(&warped);
  DispatchFloat(options_.dtype, [&]<typename T>(T) {
    Fill(warped, place, reinterpret_cast<T*>(places[0]));
    if (places.size() > 1) *reinterpret_cast<T*>(places[1]) = static_cast<T>(window.label);
  });
}

WindowPlacement PlaceWindow(const WindowBox& window, int image_height, int image_width, bool mirror,
                            const WindowCropOptions& options) {
  if (options.context_pad == 0 && !options.square) {
    return {.part = window, .height = options.size, .width = options.size};
  }
  const double context = static_cast<double>(options.size) /
                         (options.size - 2.0 * static_cast<double>(options.context_pad));
  double half_height = (window.y2 - window.y1 + 1) / 2.0;
  double half_width = (window.x2 - window.x1 + 1) / 2.0;
  const double centre_y = window.y1 + half_height;
  const double centre_x = window.x1 + half_width;
  if (options.square) half_height = half_width = std::max(half_height, half_width);
  const Side y = Enlarge(centre_y, half_height * context, image_height);
  const Side x = Enlarge(centre_x, half_width * context, image_width);
  const Warped rows = WarpOf(y, y.before, options.size);
  const Warped columns = WarpOf(x, mirror ? x.after : x.before, options.size);
  return {.part = {.x1 = x.begin, .y1 = y.begin, .x2 = x.end, .y2 = y.end},
          .height = rows.length,
          .width = columns.length,
          .top = rows.before,
          .left = columns.before};
}

}  // namespace crema
