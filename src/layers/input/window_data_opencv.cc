// WindowData: labelled boxes of images, cut out and warped to squares, for training R-CNN. Outputs:
// windows (batch x C x crop x crop) and, with a second top, labels (batch). Each batch has (1 -
// fg_fraction) background windows (label 0) first, then foreground windows, drawn with replacement.
// No input, no gradient.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/window_batches.h"
#include "graph/registry.h"
#include "layers/input/pipeline.h"
#include "layers/input/planned_shard.h"
#include "layers/input/prefetched.h"

namespace crema {
namespace {

std::shared_ptr<const WindowFile> OpenFile(const LayerParameter& param) {
  const WindowDataParameter& data = param.window_data_param();
  return std::make_shared<const WindowFile>(
      ReadWindowFile(data.source(), data.root_folder(),
                     {.foreground = data.fg_threshold(), .background = data.bg_threshold()}));
}

uint64_t ForegroundOf(const WindowDataParameter& data) {
  return static_cast<uint64_t>(static_cast<float>(data.batch_size()) * data.fg_fraction());
}

class WindowData final : public PrefetchedLayer {
 public:
  explicit WindowData(const LayerParameter& param) : PrefetchedLayer(param) {
    const WindowDataParameter& data = param.window_data_param();
    if (data.source().empty()) {
      FailField(*this, "window_data_param.source",
                "window_data_param.source is missing: give a window file");
    }
    CheckBatchSize(*this, "window_data_param.batch_size", data.batch_size());
    CheckPipeline(*this, PipelineFieldsOf(data));
    RefuseByteOutput(*this, "pixels outside an image are 0 after the mean is subtracted");
    CheckRanges(data);
    ValidateTransform(param.transform_param(), param.name());
    CheckCrop();
  }

  LayerInfo Infer(const InferContext& context) const override {
    shard_.Note(context);
    const WindowDataParameter& data = param().window_data_param();
    const auto file =
        WithFieldContext(*this, "window_data_param.source", [&] { return OpenFile(param()); });
    CheckWindows(*file);
    CheckMean(file->images[0].channels);
    const int64_t batch = data.batch_size();
    const int64_t size = param().transform_param().crop_size();
    LayerInfo info;
    info.outputs.push_back({Shape{batch, file->images[0].channels, size, size}, context.dtype});
    if (context.output_count > 1) info.outputs.push_back({Shape{batch}, context.dtype});
    info.external_output.assign(context.output_count, true);
    return info;
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context, Phase) const override {
    return std::make_unique<PrefetchedState>(
        PrefetchedState::Options{.layer = param().name(),
                                 .open = [param = param(), seed = context.seed(),
                                          shard = shard_.Get()](std::span<const BlobSpec> outputs) {
                                   return Open(param, seed, shard, outputs);
                                 }});
  }

 private:
  static BatchReader Open(const LayerParameter& param, uint64_t seed, const Shard& shard,
                          std::span<const BlobSpec> outputs) {
    const WindowDataParameter& data = param.window_data_param();
    const TransformationParameter& transform = param.transform_param();
    const Pipeline pipeline = MakePipeline(param, PipelineFieldsOf(data));
    const SampleCaches caches = MakeCaches(pipeline);
    const WindowDraw draw(OpenFile(param), {.batch = data.batch_size(),
                                            .foreground = ForegroundOf(data),
                                            .mirror = transform.mirror(),
                                            .seed = seed,
                                            .layer_id = HashName(param.name()),
                                            .shard = shard});
    WindowDecoder::Options options{
        .crop = {.size = static_cast<int>(transform.crop_size()),
                 .context_pad = static_cast<int>(data.context_pad()),
                 .square = data.crop_mode() == "square"},
        .dtype = outputs[0].dtype,
        .scale = data.scale(),
        .mean_values = {transform.mean_value().begin(), transform.mean_value().end()},
        .mean = nullptr,
        .caches = caches};
    if (transform.has_mean_file()) {
      options.mean = std::make_shared<const MeanImage>(ReadMeanImage(transform.mean_file()));
    }
    return {
        .options = pipeline.options,
        .source = std::make_unique<WindowSource>(draw, caches),
        .make_decoder = [draw, options] { return std::make_unique<WindowDecoder>(draw, options); }};
  }

  void CheckRanges(const WindowDataParameter& data) const {
    if (!(data.fg_fraction() >= 0 && data.fg_fraction() <= 1)) {
      FailField(*this, "window_data_param.fg_fraction",
                StrCat("fg_fraction is ", data.fg_fraction(), ", but must be 0 to 1"));
    }
    if (!(data.bg_threshold() <= data.fg_threshold())) {
      FailField(*this, "window_data_param.bg_threshold",
                StrCat("bg_threshold is ", data.bg_threshold(), ", above fg_threshold, which is ",
                       data.fg_threshold()));
    }
    if (data.crop_mode() != "warp" && data.crop_mode() != "square") {
      FailField(*this, "window_data_param.crop_mode",
                StrCat("crop_mode is '", data.crop_mode(), "', but must be 'warp' or 'square'"));
    }
  }

  void CheckCrop() const {
    constexpr uint32_t kMost = 1 << 14;
    const uint32_t size = param().transform_param().crop_size();
    const uint32_t pad = param().window_data_param().context_pad();
    if (size == 0 || size > kMost) {
      FailField(*this, "transform_param.crop_size",
                StrCat("windows are warped to transform_param.crop_size, which is ", size,
                       " but must be 1 to ", kMost));
    }
    if (pad >= (size + 1) / 2) {
      FailField(
          *this, "window_data_param.context_pad",
          StrCat("context_pad is ", pad, ", but twice that must be less than crop_size, ", size));
    }
  }

  void CheckWindows(const WindowFile& file) const {
    const WindowDataParameter& data = param().window_data_param();
    const uint64_t foreground = ForegroundOf(data);
    const bool lacks_foreground = foreground > 0 && file.foreground.empty();
    if (!lacks_foreground && (foreground == data.batch_size() || !file.background.empty())) return;
    FailField(*this, "window_data_param.source",
              StrCat("'", file.source, "' has no ", lacks_foreground ? "foreground" : "background",
                     " windows under these thresholds, but fg_fraction asks for some"));
  }

  void CheckMean(int channels) const {
    const TransformationParameter& transform = param().transform_param();
    const int means = transform.mean_value_size();
    if (means > 1 && means != channels) {
      FailField(*this, "transform_param.mean_value",
                StrCat("there are ", means, " entries of mean_value, but the images have ",
                       channels, " channels: give one, or one each"));
    }
    if (!transform.has_mean_file()) return;
    const Shape mean = WithFieldContext(*this, "transform_param.mean_file",
                                        [&] { return ReadMeanImage(transform.mean_file()).shape; });
    if (mean[0] == channels && mean[1] == mean[2] && mean[1] >= transform.crop_size()) return;
    FailField(*this, "transform_param.mean_file",
              StrCat("the mean image is ", ToString(mean), ", but must be a square with ", channels,
                     " channels, and not smaller than crop_size, ", transform.crop_size()));
  }

  PlannedShard shard_;
};

std::vector<BadSample> BadSamples() {
  const std::string source = "window_data_param { source: 'no/such/windows' batch_size: 4 ";
  const std::string crop = "transform_param { crop_size: 8 }";
  return {
      {crop, {}, "source is missing"},
      {"window_data_param { source: 'no/such/windows' }" + crop,
       {},
       "batch_size must be 1 or more"},
      {source + "}", {}, "crop_size, which is 0"},
      {source + "fg_fraction: 1.5 }" + crop, {}, "fg_fraction is 1.5"},
      {source + "fg_fraction: nan }" + crop, {}, "nan"},
      {source + "bg_threshold: 0.6 }" + crop, {}, "bg_threshold is 0.6"},
      {source + "crop_mode: 'squeeze' }" + crop, {}, "crop_mode is 'squeeze'"},
      {source + "context_pad: 4 }" + crop, {}, "context_pad is 4"},
      {source + "}" + crop, {}, "no/such/windows"},
  };
}

}  // namespace

void RegisterWindowData(Registry& registry) {
  LayerType type;
  type.name = "WindowData";
  type.category = "input";
  type.summary =
      "Labelled boxes of images, cut out and warped to squares of transform_param.crop_size, from "
      "a window file of R-CNN: blocks of `# index`, path, channels, height, width, number of "
      "windows, and lines of `label overlap x1 y1 x2 y2`. Needs a build with OpenCV.";
  type.formula =
      "output = (warped pixel - mean) * window_data_param.scale; 0 where a window with context "
      "reaches beyond the image";
  type.output_docs = {"windows: batch x C x crop_size x crop_size, background first",
                      "labels (optional): batch; background is 0"};
  type.differences = {
      "Windows that are not inside their image, and images of another size than the file says, are "
      "errors; Caffe fails inside OpenCV, or reads past the image.",
      "fg_fraction 0 or 1 needs windows of one kind only.",
      "Images with one channel in the file are read as grey; Caffe always reads three.",
      "Random windows depend on seed and layer only, so a resumed run continues with the same "
      "windows."};
  type.param_fields = {"window_data_param", "transform_param", "pipeline_param"};
  type.unread_fields = {"window_data_param.mean_file", "window_data_param.crop_size",
                        "window_data_param.mirror",    "transform_param.scale",
                        "transform_param.force_color", "transform_param.force_gray",
                        "transform_param.crop_h",      "transform_param.crop_w",
                        "pipeline_param.shuffle",      "pipeline_param.shuffle_buffer"};
  type.inputs = {.min = 0, .max = 0};
  type.outputs = {.min = 1, .max = 2};
  type.example =
      "top: \"data\"\n"
      "top: \"label\"\n"
      "window_data_param { source: \"windows.txt\" batch_size: 128 fg_threshold: 0.5 bg_threshold: "
      "0.5 fg_fraction: 0.25 context_pad: 16 crop_mode: \"warp\" }\n"
      "transform_param { crop_size: 227 mirror: true }";
  type.make = [](const LayerParameter& p) { return std::make_unique<const WindowData>(p); };
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
