// MemoryData: samples that the program provides; see data/batches/memory_feed.h.
// Outputs: data (batch x channels x height x width) and, with a second top, labels (batch). Batches
// are consecutive and wrap to the first. No input, no gradient.
#include <algorithm>
#include <climits>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/batches/batch_filler.h"
#include "data/batches/memory_feed.h"
#include "data/records/datum.h"
#include "graph/registry.h"
#include "layers/input/prefetched.h"

namespace crema {
namespace {

class MemoryDataState final : public LayerSessionState, public MemoryFeed {
 public:
  MemoryDataState(const LayerParameter& param, Phase phase, uint64_t seed)
      : param_(param),
        sample_{param.memory_data_param().channels(), param.memory_data_param().height(),
                param.memory_data_param().width()},
        batch_(param.memory_data_param().batch_size()),
        filler_(BatchFillerOptionsFor(param, sample_, seed),
                std::make_shared<const Transformer>(param.transform_param(), phase, param.name())) {
  }

  void SetArrays(std::span<const float> data, std::span<const float> labels,
                 std::shared_ptr<const void> owner) override {
    CheckCount(labels.size());
    const auto size = static_cast<size_t>(sample_.count());
    if (data.size() != labels.size() * size) {
      Refuse(StrCat("there are ", labels.size(), " labels and ", data.size(),
                    " values, but a sample of ", ToString(sample_), " has ", size));
    }
    data_ = data;
    labels_ = labels;
    owner_ = std::move(owner);
    unused_ = false;
    next_ = 0;
  }

  void AddDatums(std::span<const Datum> datums) override {
    std::vector<float> labels;
    for (const Datum& datum : datums) labels.push_back(static_cast<float>(datum.label()));
    Add(std::move(labels), [&](size_t i, std::byte* place) {
      const std::string key = std::to_string(i);
      DatumReader reader("the program", filler_.transformer().color_mode());
      const std::string bytes = datums[i].SerializeAsString();
      filler_.Write(reader.Read(key, bytes), added_ + i, Name(i), place);
    });
  }

  void AddImages(std::span<const Image> images, std::span<const int> labels) override {
    if (images.size() != labels.size()) {
      Refuse(StrCat("there are ", images.size(), " images and ", labels.size(), " labels"));
    }
    Add({labels.begin(), labels.end()}, [&](size_t i, std::byte* place) {
      const Image& image = images[i];
      const PixelView view{image.channels, image.height, image.width, image.pixels.data(), nullptr};
      const bool whole = std::min({image.channels, image.height, image.width}) > 0 &&
                         static_cast<int64_t>(image.pixels.size()) == view.shape().count();
      if (!whole) Refuse(StrCat("image ", i, " does not have as many pixels as it says"));
      filler_.Write(view, added_ + i, Name(i), place);
    });
  }

  void Next(std::span<const TensorView> outputs) {
    if (data_.data() == nullptr) {
      Refuse("has no data: hand some over before Forward (MemoryFeed of the layer's state)");
    }
    const auto size = static_cast<size_t>(sample_.count());
    Copy(data_.subspan(next_ * size, batch_ * size), outputs[0]);
    if (outputs.size() > 1) Copy(labels_.subspan(next_, batch_), outputs[1]);
    last_ = next_;
    next_ += batch_;
    if (next_ == labels_.size()) {
      next_ = 0;
      unused_ = false;
    }
  }

  int64_t EpochSize() const override { return static_cast<int64_t>(labels_.size()); }

  std::string SampleName(int64_t index) const override {
    const size_t sample = last_ + static_cast<size_t>(index);
    if (index < 0 || static_cast<size_t>(index) >= batch_ || sample >= labels_.size()) return {};
    return Name(sample)();
  }

 private:
  static BatchFiller::Options BatchFillerOptionsFor(const LayerParameter& param,
                                                    const Shape& sample, uint64_t seed) {
    const BlobSpec images{Shape{1, sample[0], sample[1], sample[2]}, DType::kF32};
    BatchFiller::Options options =
        BatchFillerOptions({&images, 1}, param.transform_param(), seed, param.name());
    options.who_decides = "memory_data_param says";
    return options;
  }

  [[noreturn]] void Refuse(std::string message) const {
    Fail(ErrorCode::kInvalidArgument, std::move(message), {.layer = param_.name()});
  }

  static std::function<std::string()> Name(size_t i) {
    return [i] { return StrCat("image ", i, " of those handed over"); };
  }

  void CheckCount(size_t count) const {
    if (count > 0 && count % batch_ == 0) return;
    Refuse(StrCat(count, " samples are not a multiple of the batch size ", batch_));
  }

  template <typename WriteSample>
  void Add(std::vector<float> labels, WriteSample&& write) {
    CheckCount(labels.size());
    if (unused_) {
      Refuse("samples that were added before have not been used yet: run Forward until they are");
    }
    const auto size = static_cast<size_t>(sample_.count());
    std::vector<float> data(labels.size() * size);
    try {
      for (size_t i = 0; i < labels.size(); ++i) {
        write(i, reinterpret_cast<std::byte*>(data.data() + i * size));
      }
    } catch (const Error& error) {
      Refuse(error.problems().front().message);
    }
    added_ += labels.size();
    own_data_ = std::move(data);
    own_labels_ = std::move(labels);
    data_ = own_data_;
    labels_ = own_labels_;
    next_ = 0;
    unused_ = true;
  }

  static void Copy(std::span<const float> from, const TensorView& to) {
    DispatchFloat(to.dtype(), [&]<typename T>(T) { std::ranges::copy(from, to.data<T>()); });
  }

  const LayerParameter param_;
  const Shape sample_;
  const size_t batch_;
  BatchFiller filler_;
  std::vector<float> own_data_;
  std::vector<float> own_labels_;
  std::shared_ptr<const void> owner_;
  std::span<const float> data_;  // own_data_, or the program's
  std::span<const float> labels_;
  size_t next_ = 0;      // first sample of the next batch
  size_t last_ = 0;      // first sample of the last batch
  bool unused_ = false;  // samples were added and not all of them used
  uint64_t added_ = 0;   // number of samples added so far, for the random draws
};

class MemoryData final : public Layer {
 public:
  explicit MemoryData(const LayerParameter& param) : Layer(param) {
    const MemoryDataParameter& data = param.memory_data_param();
    CheckBatchSize(*this, "memory_data_param.batch_size", data.batch_size());
    Check("channels", data.channels());
    Check("height", data.height());
    Check("width", data.width());
    ValidateTransform(param.transform_param(), param.name());
  }

  LayerInfo Infer(const InferContext& context) const override {
    const MemoryDataParameter& data = param().memory_data_param();
    LayerInfo info;
    const Shape images = WithFieldContext(*this, "memory_data_param.batch_size", [&] {
      return Shape{data.batch_size(), data.channels(), data.height(), data.width()};
    });
    info.outputs.push_back({images, context.dtype});
    if (context.output_count > 1) info.outputs.push_back({Shape{images[0]}, context.dtype});
    // Reads the mean file during planning, so that its errors are reported early.
    Transformer(param().transform_param(), context.phase, param().name());
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    static_cast<MemoryDataState*>(args.state)->Next(args.outputs);
  }

  std::unique_ptr<LayerSessionState> MakeState(const ExecContext& context,
                                               Phase phase) const override {
    return std::make_unique<MemoryDataState>(param(), phase, context.seed());
  }

 private:
  void Check(const std::string& field, uint32_t value) const {
    if (value >= 1 && value <= INT_MAX) return;
    FailField(*this, "memory_data_param." + field,
              StrCat("memory_data_param.", field, " is ", value, ", but must be 1 or more",
                     value > 0 ? " and below 2^31" : ""));
  }
};

std::vector<BadSample> BadSamples() {
  return {
      {"", {}, "batch_size must be 1 or more"},
      {"memory_data_param { batch_size: 1 height: 2 width: 2 }",
       {},
       "memory_data_param.channels is 0"},
      {"memory_data_param { batch_size: 1 channels: 1 width: 2 }",
       {},
       "memory_data_param.height is 0"},
      {"memory_data_param { batch_size: 1 channels: 1 height: 2 }",
       {},
       "memory_data_param.width is 0"},
      {"memory_data_param { batch_size: 65536 channels: 1 height: 65536 width: 1 }",
       {},
       "more than 2147483647 elements"},
      {"memory_data_param { batch_size: 1 channels: 1 height: 2 width: 2 } "
       "transform_param { mean_file: 'no/such/mean' }",
       {},
       "no/such/mean"},
      {"memory_data_param { batch_size: 1 channels: 1 height: 2 width: 2 } "
       "transform_param { resize_param { } }",
       {},
       "resize_param"},
  };
}

}  // namespace

void RegisterMemoryData(Registry& registry) {
  LayerType type;
  type.name = "MemoryData";
  type.traits = {.fed_by_program = true};
  type.category = "input";
  type.summary =
      "Data and labels that the program passes to the session (data/batches/memory_feed.h): whole "
      "arrays, which are not changed, or images, which are transformed.";
  type.formula = "output = the next batch of the given data";
  type.output_docs = {"data: batch_size x channels x height x width",
                      "labels (optional): batch_size"};
  type.differences = {
      "The labels keep the shape (batch); Caffe makes them batch x 1 x 1 x 1 while it runs.",
      "The second top may be left out.", "Forward without data is an error."};
  type.param_fields = {"memory_data_param", "transform_param"};
  type.inputs = {.min = 0, .max = 0};
  type.outputs = {.min = 1, .max = 2};
  type.example =
      "top: \"data\"\n"
      "top: \"label\"\n"
      "memory_data_param { batch_size: 10 channels: 3 height: 32 width: 32 }";
  type.make = [](const LayerParameter& p) { return std::make_unique<const MemoryData>(p); };
  type.bad_samples = BadSamples();
  registry.Add(std::move(type));
}

}  // namespace crema
