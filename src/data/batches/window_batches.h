// Batches of windows: background first, then foreground, drawn with replacement.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/rng.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "data/lists/file_reader.h"
#include "data/lists/window_file.h"
#include "data/pipeline/bounded_cache.h"
#include "data/pipeline/prefetcher.h"
#include "data/pipeline/shuffle.h"
#include "data/transform/transformer.h"

namespace crema {

struct WindowCropOptions {
  int size = 0;         // side of the sample
  int context_pad = 0;  // border of context, in sample pixels
  bool square = false;  // first widen the window to a square
};

// The part of the image to cut out, the size to warp it to, and its position in the sample. The
// rest of the sample stays 0.
struct WindowPlacement {
  WindowBox part;
  int height = 0;
  int width = 0;
  int top = 0;
  int left = 0;
};

// With context or `square`, enlarges the window about its centre so that its border is context_pad
// pixels wide after the warp, then clips it to the image. Requires: the window lies in the image; 2
// * context_pad < size.
WindowPlacement PlaceWindow(const WindowBox& window, int image_height, int image_width, bool mirror,
                            const WindowCropOptions& options);

// Selects window and mirroring of a sample from seed, layer and ordinal. Thread safety: const.
class WindowDraw {
 public:
  struct Options {
    uint64_t batch = 1;
    uint64_t foreground = 0;  // foreground samples at the end of a batch
    bool mirror = false;
    uint64_t seed = 1;
    uint64_t layer_id = 0;
    Shard shard = {};  // each process draws its own samples
  };
  WindowDraw(std::shared_ptr<const WindowFile> file, Options options)
      : file_(std::move(file)), options_(options) {}

  const LabelledWindow& Window(uint64_t ordinal) const;
  bool Mirrored(uint64_t ordinal) const;
  const WindowFile& file() const { return *file_; }
  uint64_t OrdinalAt(uint64_t position) const { return options_.shard.Ordinal(position); }

 private:
  RandomStream Stream(uint64_t ordinal) const;

  const std::shared_ptr<const WindowFile> file_;
  const Options options_;
};

// Draws windows; the decoders read the files.
class WindowSource final : public RecordSource {
 public:
  WindowSource(WindowDraw draw, SampleCaches caches)
      : draw_(std::move(draw)), decoded_(caches.decoded), files_(std::move(caches.encoded)) {}

  void Seek(uint64_t position) override { position_ = position; }
  // Leaves the value empty.
  void Read(Record* record) override;
  // Names the image and the window.
  std::string Name(const Record& record) const override;

 private:
  const WindowDraw draw_;
  const std::shared_ptr<ImageCache> decoded_;
  const FileReader files_;
  uint64_t position_ = 0;
};

// Cuts, warps, mirrors, subtracts the mean and scales.
class WindowDecoder final : public SampleDecoder {
 public:
  struct Options {
    WindowCropOptions crop;
    DType dtype = DType::kF32;
    double scale = 1;
    std::vector<float> mean_values;         // empty, one, or one per channel
    std::shared_ptr<const MeanImage> mean;  // null: none; at least as large as the sample
    SampleCaches caches = {};               // caches of files and of whole images
  };
  WindowDecoder(WindowDraw draw, Options options)
      : draw_(std::move(draw)), options_(std::move(options)), files_(options_.caches.encoded) {}

  void Decode(const Record& record, std::span<std::byte* const> places) override;

 private:
  std::string_view ReadFileOf(const LabelledWindow& window, const std::string& name);
  const Image& ReadImage(const LabelledWindow& window);
  template <typename T>
  void Fill(const Image& warped, const WindowPlacement& place, T* out) const;
  float Mean(int channel, int y, int x) const;

  const WindowDraw draw_;
  const Options options_;
  FileReader files_;
  std::string storage_;
  Image image_;  // used if it is not in the cache
};

}  // namespace crema
