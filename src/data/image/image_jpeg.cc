// Excluded from builds without libjpeg-turbo; OpenCV decodes JPEG files there.
#include "data/image/image_jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

// The numbers in jerror.h depend on what jpeglib.h defines.
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "core/error.h"
#include "core/strings.h"
#include "data/image/pixel_kernels.h"

namespace crema {
namespace {

// Files with more scans are made to keep decoders busy.
constexpr int kMostScans = 500;

struct Errors {
  jpeg_error_mgr base;  // first, so that libjpeg's pointer to it points to this object
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

// After these warnings libjpeg continues with made-up pixels. Other warnings lose nothing.
bool LosesPixels(int code) {
  return code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE ||
         code == JWRN_MUST_RESYNC || code == JWRN_JPEG_EOF || code == JWRN_BOGUS_PROGRESSION;
}

[[noreturn]] void OnError(j_common_ptr info) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  errors->base.format_message(info, errors->message);
  std::longjmp(errors->escape, 1);
}

void OnMessage(j_common_ptr info, int level) {
  if (level < 0 && LosesPixels(info->err->msg_code)) OnError(info);
}

void OnProgress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* errors = reinterpret_cast<Errors*>(info->err);
  std::snprintf(errors->message, sizeof errors->message, "more than %d scans", kMostScans);
  std::longjmp(errors->escape, 1);
}

// Runs calls of libjpeg; false if libjpeg failed. `calls` must not own anything: errors leave it
// and libjpeg's frames by longjmp, without destructors.
template <typename Calls>
bool Run(Errors* errors, const Calls& calls) {
  if (setjmp(errors->escape) != 0) return false;  // NOLINT: the way of libjpeg
  calls();
  return true;
}

// Converts CMYK as OpenCV does. libjpeg returns it inverted, as Adobe's programs store it.
void InkToColor(const uint8_t* cmyk, int width, uint8_t* bgr) {
  for (int x = 0; x < width; ++x, cmyk += 4, bgr += 3) {
    const int k = cmyk[3];
    for (int i = 0; i < 3; ++i) bgr[2 - i] = static_cast<uint8_t>(k - ((255 - cmyk[i]) * k >> 8));
  }
}

void ColorToGray(const uint8_t* bgr, int width, uint8_t* gray) {
  for (int x = 0; x < width; ++x, bgr += 3) gray[x] = GrayOf(bgr[0], bgr[1], bgr[2]);
}

class TiffReader {
 public:
  explicit TiffReader(std::span<const uint8_t> bytes) : bytes_(bytes) {
    big_endian_ = bytes.size() >= 2 && bytes[0] == 'M';
  }

  // Reads a little- or big-endian number of `count` bytes; 0 if out of range.
  uint32_t Number(size_t at, size_t count) const {
    if (at > bytes_.size() || bytes_.size() - at < count) return 0;
    uint32_t number = 0;
    for (size_t i = 0; i < count; ++i) {
      number = number << 8 | bytes_[at + (big_endian_ ? i : count - 1 - i)];
    }
    return number;
  }
  bool IsTiff() const {
    return bytes_.size() >= 8 && bytes_[0] == bytes_[1] && (bytes_[0] == 'I' || bytes_[0] == 'M') &&
           Number(2, 2) == 42;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool big_endian_ = false;
};

}  // namespace

struct JpegFile::State {
  Errors errors = {};
  jpeg_progress_mgr progress = {};
  jpeg_decompress_struct info = {};
  int channels = 0;      // of the result
  int orientation = 1;   // EXIF orientation to apply
  int first_column = 0;  // first column that libjpeg returns
  std::vector<uint8_t> row_memory;
  std::vector<uint8_t> converted;  // BGR rows of a CMYK file

  ~State() { jpeg_destroy_decompress(&info); }
  bool ink() const { return info.out_color_space == JCS_CMYK; }
  int width() const { return static_cast<int>(info.output_width); }
  int height() const { return static_cast<int>(info.output_height); }

  // One row. libjpeg-turbo uses non-temporal stores for aligned rows, which slows down reading them
  // right afterwards (7 % of decoding a crop). This row is never aligned.
  uint8_t* MakeRow() {
    constexpr size_t kOffAlignment = 8;
    row_memory.resize(kOffAlignment +
                      size_t{info.output_width} * static_cast<size_t>(info.output_components));
    return row_memory.data() + kOffAlignment;
  }
};

JpegFile::JpegFile(std::string_view bytes, ColorMode mode, std::string name)
    : bytes_(bytes), mode_(mode), name_(std::move(name)), state_(std::make_unique<State>()) {
  if (const std::string truncation = FindTruncation(bytes); !truncation.empty()) {
    Fail(ErrorCode::kDataLoss, StrCat(name_, ": ", truncation));
  }
  ReadHeader();
  CheckSize();
}

JpegFile::~JpegFile() = default;

void JpegFile::FailHere() const {
  Fail(ErrorCode::kDataLoss,
       StrCat(name_, ": the JPEG cannot be decoded: ", std::string_view(state_->errors.message)));
}

void JpegFile::ReadHeader() {
  State& state = *state_;
  jpeg_decompress_struct& info = state.info;
  info.err = jpeg_std_error(&state.errors.base);
  state.errors.base.error_exit = OnError;
  state.errors.base.emit_message = OnMessage;
  state.progress.progress_monitor = OnProgress;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes_.data());
  const bool read = Run(&state.errors, [&] {
    jpeg_create_decompress(&info);
    info.progress = &state.progress;
    jpeg_mem_src(&info, data, static_cast<unsigned long>(bytes_.size()));  // NOLINT: its type
    jpeg_save_markers(&info, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&info, TRUE);
    const bool gray =
        mode_ == ColorMode::kGray || (mode_ == ColorMode::kAsStored && info.num_components == 1);
    state.channels = gray ? 1 : 3;
    info.out_color_space = gray ? JCS_GRAYSCALE : JCS_EXT_BGR;
    if (info.num_components == 4) info.out_color_space = JCS_CMYK;
    jpeg_calc_output_dimensions(&info);
  });
  if (!read) FailHere();
  if (mode_ == ColorMode::kAsStored || info.marker_list == nullptr) return;
  constexpr size_t kName = 6;  // "Exif" and two zeros
  const std::span<const uint8_t> marker(info.marker_list->data, info.marker_list->data_length);
  if (marker.size() > kName) state.orientation = FindOrientation(marker.subspan(kName));
}

// A damaged header can claim gigabytes. Each 8 x 8 block takes at least a bit, except with
// arithmetic coding, which is not used in practice.
void JpegFile::CheckSize() const {
  const uint64_t blocks = (uint64_t{state_->info.image_height} + 7) / 8 *
                          ((uint64_t{state_->info.image_width} + 7) / 8);
  if (blocks <= 8 * uint64_t{bytes_.size()}) return;
  Fail(ErrorCode::kDataLoss,
       StrCat(name_, ": the JPEG says that it is ", state_->info.image_width, " pixels wide and ",
              state_->info.image_height, " high, which its ", bytes_.size(), " bytes cannot hold"));
}

Shape JpegFile::shape() const {
  const bool swap = SwapsSides(state_->orientation);
  const int height = swap ? state_->width() : state_->height();
  return {state_->channels, height, swap ? state_->height() : state_->width()};
}

void JpegFile::ShrinkTowards(int height, int width) {
  jpeg_decompress_struct& info = state_->info;
  if (SwapsSides(state_->orientation)) std::swap(height, width);
  for (const unsigned eighths : {1U, 2U, 4U, 8U}) {
    info.scale_num = eighths;
    info.scale_denom = 8;
    if (!Run(&state_->errors, [&] { jpeg_calc_output_dimensions(&info); })) FailHere();
    if (state_->height() >= height && state_->width() >= width) return;
  }
}

// Starts at the first row of `stored` or slightly above if libjpeg can skip the rest. Subsampled
// colours need a margin, since they are interpolated from neighbours.
void JpegFile::Start(const ImagePart& stored) {
  State& state = *state_;
  jpeg_decompress_struct& info = state.info;
  constexpr int kLeast = 32;  // narrower images use another colour interpolation
  const int margin = info.max_h_samp_factor > 1 ? 4 : 0;
  const int above = std::max(0, stored.top - (info.max_v_samp_factor > 1 ? 4 : 0));
  const int left = std::max(0, stored.left - margin);
  const int width = state.width();
  const int right = std::min(width, std::max(left + kLeast, stored.left + stored.width + margin));
  const bool started = Run(&state.errors, [&] {
    jpeg_start_decompress(&info);
    // Progressive files are decoded to coefficients as a whole, and missing ones are estimated from
    // neighbours.
    const bool whole =
        jpeg_has_multiple_scans(&info) || info.arith_code || info.scale_num != info.scale_denom;
    if (whole) return;
    if (right - left >= kLeast && right - left < width) {
      auto offset = static_cast<JDIMENSION>(left);
      auto columns = static_cast<JDIMENSION>(right - left);
      jpeg_crop_scanline(&info, &offset, &columns);
      state.first_column = static_cast<int>(offset);
    }
    if (above > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(above));
  });
  if (!started) FailHere();
}

// Calls sink(y, pixels) for each row; y counts from the first row of `stored`.
template <typename Sink>
void JpegFile::ReadRows(const ImagePart& stored, const Sink& sink) {
  State& state = *state_;
  jpeg_decompress_struct& info = state.info;
  Start(stored);
  JSAMPROW row = state.MakeRow();
  state.converted.resize(state.ink() ? static_cast<size_t>(stored.width) * 3 : 0);
  const ptrdiff_t first = ptrdiff_t{stored.left - state.first_column} * info.output_components;
  const auto end = static_cast<JDIMENSION>(stored.top + stored.height);
  while (info.output_scanline < end) {
    const int y = static_cast<int>(info.output_scanline) - stored.top;
    if (!Run(&state.errors, [&] { jpeg_read_scanlines(&info, &row, 1); })) FailHere();
    if (y < 0) continue;
    const uint8_t* pixels = row + first;
    if (state.ink()) {
      InkToColor(pixels, stored.width, state.converted.data());
      pixels = state.converted.data();
      if (state.channels == 1) ColorToGray(pixels, stored.width, state.converted.data());
    }
    sink(y, pixels);
  }
}

void JpegFile::DecodeStored(const ImagePart& stored, PackedImage* image) {
  image->channels = state_->channels;
  image->height = stored.height;
  image->width = stored.width;
  const size_t row = static_cast<size_t>(stored.width) * static_cast<size_t>(image->channels);
  image->pixels.resize(row * static_cast<size_t>(stored.height));
  ReadRows(stored, [&](int y, const uint8_t* pixels) {
    std::memcpy(image->pixels.data() + row * static_cast<size_t>(y), pixels, row);
  });
}

void JpegFile::Decode(const ImagePart& part, PackedImage* image) {
  if (state_->orientation == 1) return DecodeStored(part, image);
  PackedImage stored;
  DecodeStored({0, 0, state_->height(), state_->width()}, &stored);
  RotateUpright(stored, state_->orientation, part, image);
}

void JpegFile::Decode(Image* image) {
  const Shape shape = this->shape();
  image->channels = state_->channels;
  image->height = static_cast<int>(shape[1]);
  image->width = static_cast<int>(shape[2]);
  const auto width = static_cast<size_t>(image->width);
  const size_t plane = width * static_cast<size_t>(image->height);
  image->pixels.resize(plane * static_cast<size_t>(image->channels));
  const auto take_row = [&](int y, const uint8_t* pixels) {
    uint8_t* out = image->pixels.data() + width * static_cast<size_t>(y);
    if (image->channels == 1) {
      std::memcpy(out, pixels, width);
    } else {
      SplitPixels(pixels, image->width, out, out + plane, out + 2 * plane);
    }
  };
  const ImagePart whole{0, 0, image->height, image->width};
  if (state_->orientation == 1) return ReadRows(whole, take_row);
  PackedImage upright;
  Decode(whole, &upright);
  const size_t row = width * static_cast<size_t>(image->channels);
  for (int y = 0; y < image->height; ++y) {
    take_row(y, upright.pixels.data() + row * static_cast<size_t>(y));
  }
}

int FindOrientation(std::span<const uint8_t> tiff) {
  constexpr uint32_t kOrientationTag = 0x0112;
  const TiffReader reader(tiff);
  if (!reader.IsTiff()) return 1;
  const size_t folder = reader.Number(4, 4);
  const size_t entries = reader.Number(folder, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = folder + 2 + 12 * i;
    if (entry + 12 > tiff.size()) return 1;
    if (reader.Number(entry, 2) != kOrientationTag) continue;
    const uint32_t orientation = reader.Number(entry + 8, 2);
    return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 1;
  }
  return 1;
}

void RotateUpright(const PackedImage& stored, int orientation, const ImagePart& part,
                   PackedImage* upright) {
  // Pixel (y, x) of the upright image is the stored pixel at first + y * down + x * right.
  const ptrdiff_t column = stored.channels;
  const ptrdiff_t row = column * stored.width;
  const ptrdiff_t last_column = column * (stored.width - 1);
  const ptrdiff_t last_row = row * (stored.height - 1);
  const bool swap = SwapsSides(orientation);
  // EXIF: the sides of the upright image that the stored rows and columns begin at.
  const bool from_last_row =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_last_column =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const ptrdiff_t row_step = from_last_row ? -row : row;
  const ptrdiff_t column_step = from_last_column ? -column : column;
  const ptrdiff_t first = (from_last_row ? last_row : 0) + (from_last_column ? last_column : 0);
  const ptrdiff_t down = swap ? column_step : row_step;
  const ptrdiff_t right = swap ? row_step : column_step;

  upright->channels = stored.channels;
  upright->height = part.height;
  upright->width = part.width;
  upright->pixels.resize(static_cast<size_t>(part.height) * static_cast<size_t>(part.width) *
                         static_cast<size_t>(stored.channels));
  uint8_t* out = upright->pixels.data();
  for (int y = part.top; y < part.top + part.height; ++y) {
    for (int x = part.left; x < part.left + part.width; ++x) {
      const uint8_t* in = stored.pixels.data() + (first + y * down + x * right);
      for (int c = 0; c < stored.channels; ++c) *out++ = in[c];
    }
  }
}

}  // namespace crema
