// Forward and backward of single layers, by every implementation that takes them: LeNet's,
// with batches of 64, and some of larger nets. Weights are packed in each forward pass that a
// backward pass follows ("/training"), and once otherwise. The argument is the number of threads.
#include <benchmark/benchmark.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/rng.h"
#include "crema.pb.h"
#include "graph/implementation.h"
#include "graph/registry.h"

namespace {

using namespace crema;  // NOLINT: a program, not a library

struct LayerSpec {
  const char* name;
  const char* type;
  const char* fields;
  std::vector<int64_t> input;
  bool data_gradient = true;         // the first layer of a net needs none
  std::vector<int64_t> second = {};  // a bottom that gets no gradient here
};

const std::vector<LayerSpec>& Specs() {
  static const std::vector<LayerSpec> specs = {
      {"lenet/conv1",
       "Convolution",
       "convolution_param { num_output: 20 kernel_size: 5 }",
       {64, 1, 28, 28},
       false},
      {"lenet/pool1", "Pooling", "pooling_param { kernel_size: 2 stride: 2 }", {64, 20, 24, 24}},
      {"lenet/conv2",
       "Convolution",
       "convolution_param { num_output: 50 kernel_size: 5 }",
       {64, 20, 12, 12}},
      {"lenet/pool2", "Pooling", "pooling_param { kernel_size: 2 stride: 2 }", {64, 50, 8, 8}},
      {"lenet/ip1",
       "InnerProduct",
       "inner_product_param { num_output: 500 } fused_relu_param {}",
       {64, 50, 4, 4}},
      {"lenet/ip2", "InnerProduct", "inner_product_param { num_output: 10 }", {64, 500}},
      {"conv3x3_64",
       "Convolution",
       "convolution_param { num_output: 64 kernel_size: 3 pad: 1 }",
       {4, 64, 56, 56}},
      {"conv3x3_512",
       "Convolution",
       "convolution_param { num_output: 512 kernel_size: 3 pad: 1 }",
       {4, 512, 14, 14}},
      {"conv1x1_256",
       "Convolution",
       "convolution_param { num_output: 64 kernel_size: 1 }",
       {4, 256, 56, 56}},
      {"conv7x7_stride2",
       "Convolution",
       "convolution_param { num_output: 64 kernel_size: 7 stride: 2 pad: 3 }",
       {4, 3, 224, 224}},
      {"depthwise3x3",
       "Convolution",
       "convolution_param { num_output: 128 kernel_size: 3 pad: 1 group: 128 }",
       {4, 128, 56, 56}},
      {"maxpool3_stride2",
       "Pooling",
       "pooling_param { kernel_size: 3 stride: 2 }",
       {4, 64, 112, 112}},
      {"avgpool_global",
       "Pooling",
       "pooling_param { pool: AVE global_pooling: true }",
       {4, 2048, 7, 7}},
      {"googlenet/pool1",
       "Pooling",
       "pooling_param { kernel_size: 3 stride: 2 }",
       {1, 64, 112, 112}},
      {"googlenet/inception_3a_pool",
       "Pooling",
       "pooling_param { kernel_size: 3 stride: 1 pad: 1 }",
       {1, 192, 28, 28}},
      {"googlenet/inception_5a_pool",
       "Pooling",
       "pooling_param { kernel_size: 3 stride: 1 pad: 1 }",
       {1, 832, 7, 7}},
      {"googlenet/loss1_pool",
       "Pooling",
       "pooling_param { pool: AVE kernel_size: 5 stride: 3 }",
       {4, 512, 14, 14}},
      {"googlenet/norm1", "LRN", "lrn_param { alpha: 0.0001 }", {1, 64, 56, 56}},
      {"googlenet/norm2", "LRN", "lrn_param { alpha: 0.0001 }", {4, 192, 56, 56}},
      {"squeezenet/pool5",
       "Pooling",
       "pooling_param { kernel_size: 3 stride: 2 }",
       {1, 512, 27, 27}},
      {"batch_norm_56", "BatchNorm", "batch_norm_param {}", {4, 64, 56, 56}},
      {"batch_norm_14", "BatchNorm", "batch_norm_param {}", {4, 256, 14, 14}},
      {"lrn_across", "LRN", "lrn_param { alpha: 0.0001 }", {4, 96, 55, 55}},
      {"deconv4_stride2",
       "Deconvolution",
       "convolution_param { num_output: 64 kernel_size: 4 stride: 2 pad: 1 }",
       {2, 128, 28, 28}},
      {"prelu", "PReLU", "prelu_param {}", {4, 64, 56, 56}},
      {"softmax_1000", "Softmax", "softmax_param {}", {64, 1000}},
      {"ip_batch8", "InnerProduct", "inner_product_param { num_output: 1000 }", {8, 2048}},
      {"ip_batch64", "InnerProduct", "inner_product_param { num_output: 4096 }", {64, 4096}},
      {"ip_batch256", "InnerProduct", "inner_product_param { num_output: 4096 }", {256, 4096}},
      {"ip_batch256_small", "InnerProduct", "inner_product_param { num_output: 500 }", {256, 800}},
      {"ip_images", "InnerProduct", "inner_product_param { num_output: 4096 }", {16, 256, 6, 6}},
      {"ip_one_pixel", "InnerProduct", "inner_product_param { num_output: 1000 }", {8, 2048, 1, 1}},
      {"ip_batch1", "InnerProduct", "inner_product_param { num_output: 4096 }", {1, 9216}},
      {"attention_50", "Attention", "attention_param { num_heads: 12 }", {1, 50, 2304}},
      {"attention_64", "Attention", "attention_param { num_heads: 6 }", {4, 64, 576}},
      {"attention_197", "Attention", "attention_param { num_heads: 12 }", {1, 197, 2304}},
      {"attention_128_causal",
       "Attention",
       "attention_param { num_heads: 8 causal: true }",
       {1, 128, 1536}},
      {"attention_512_causal",
       "Attention",
       "attention_param { num_heads: 12 causal: true }",
       {1, 512, 2304}},
      {"matmul_128", "MatMul", "matmul_param {}", {8, 128, 128}, true, {8, 128, 64}},
      {"matmul_197",
       "MatMul",
       "matmul_param { transpose_b: true scale: 0.125 }",
       {12, 197, 64},
       true,
       {12, 197, 64}},
      {"lstm_1", "LSTM", "recurrent_param { num_output: 256 }", {20, 1, 256}, true, {20, 1}},
      {"lstm_16", "LSTM", "recurrent_param { num_output: 256 }", {20, 16, 256}, true, {20, 16}},
      {"lstm_32_small",
       "LSTM",
       "recurrent_param { num_output: 64 }",
       {40, 32, 128},
       true,
       {40, 32}},
      {"lstm_100_large",
       "LSTM",
       "recurrent_param { num_output: 1000 }",
       {20, 100, 1000},
       true,
       {20, 100}},
      {"gru_1", "GRU", "recurrent_param { num_output: 256 }", {20, 1, 256}},
      {"gru_16", "GRU", "recurrent_param { num_output: 256 }", {20, 16, 256}},
      {"gru_32_small", "GRU", "recurrent_param { num_output: 64 }", {40, 32, 128}},
  };
  return specs;
}

// A layer with all that it reads and writes, run by one implementation.
class LayerRun {
 public:
  LayerRun(const LayerType& type, const LayerSpec& spec, const Implementation& implementation,
           int threads, bool training)
      : implementation_(implementation), training_(training), context_(threads) {
    LayerParameter param;
    google::protobuf::TextFormat::ParseFromString(spec.fields, &param);
    param.set_name(spec.name);
    param.set_type(spec.type);
    layer_ = type.make(param);
    specs_ = {{Shape(std::span<const int64_t>(spec.input)), DType::kF32}};
    if (!spec.second.empty()) {
      specs_.push_back({Shape(std::span<const int64_t>(spec.second)), DType::kF32});
    }
    const InferContext infer{.phase = training ? TRAIN : TEST, .inputs = specs_, .output_count = 1};
    info_ = layer_->Infer(infer);
    const OpDesc query{.layer = *layer_,
                       .context = infer,
                       .info = info_,
                       .threads = threads,
                       .backward = training,
                       .to_input = training && spec.data_gradient};
    supported_ = implementation.device == DeviceType::kCpu && !IsBF16(implementation) &&
                 implementation.Supports(query).yes;
    if (!supported_) return;
    info_ = implementation.Info(query);
    const Needs needs = implementation.NeedsOf(query);
    scratch_.resize(std::max(needs.forward_scratch, needs.backward_scratch) + 64);
    implementation_state_ = implementation.MakeState(query);
    Allocate(spec.data_gradient);
  }

  bool supported() const { return supported_; }
  void Forward() {
    const ForwardArgs args{context_,
                           training_ ? TRAIN : TEST,
                           1,
                           inputs_,
                           outputs_,
                           parameters_,
                           saved_out_,
                           AlignedScratch(),
                           nullptr,
                           {},
                           {},
                           {},
                           implementation_state_.get(),
                           !training_};
    implementation_.Forward(*layer_, args);
  }
  void Backward() {
    const BackwardArgs args{context_,
                            TRAIN,
                            1,
                            inputs_,
                            read_outputs_,
                            output_grads_,
                            input_grads_,
                            parameters_,
                            parameter_grads_,
                            saved_in_,
                            AlignedScratch(),
                            nullptr,
                            implementation_state_.get()};
    implementation_.Backward(*layer_, args);
  }
  int64_t macs() const { return info_.macs; }

 private:
  static bool IsBF16(const Implementation& implementation) {
    return implementation.input_format.type == DType::kBF16 ||
           implementation.output_format.type == DType::kBF16;
  }

  // On a cache line, as a session's is.
  std::span<std::byte> AlignedScratch() {
    void* start = scratch_.data();
    size_t room = scratch_.size();
    std::align(64, 1, start, room);
    return {static_cast<std::byte*>(start), room};
  }

  // In the format, whose channels may be more.
  Tensor& Add(Shape shape, DType dtype, bool random, MemoryFormat format = {}) {
    if (format.layout == Layout::kBlocked) {
      const int64_t block = ChannelBlock();
      shape = shape.With(1, (shape[1] + block - 1) / block * block);
    }
    tensors_.push_back(std::make_unique<Tensor>(shape, dtype));
    Tensor& tensor = *tensors_.back();
    if (random) {
      const RandomStream stream(1, tensors_.size());
      uint64_t i = 0;
      for (float& value : tensor.view().span<float>()) {
        value = static_cast<float>(stream.Uniform(i++) - 0.5);
      }
    }
    return tensor;
  }
  TensorView AddBlob(const Shape& shape, bool random, MemoryFormat format) {
    return {Add(shape, DType::kF32, random, format).view().raw(), shape, DType::kF32};
  }

  void Allocate(bool data_gradient) {
    const Shape& input = specs_[0].shape;
    const Shape& output = info_.outputs[0].shape;
    const MemoryFormat in = implementation_.input_format, out = implementation_.output_format;
    inputs_ = {AddBlob(input, true, in)};
    outputs_ = {AddBlob(output, false, out)};
    read_outputs_ = {outputs_[0]};
    output_grads_ = {AddBlob(output, true, out)};
    input_grads_ = {data_gradient ? AddBlob(input, false, in) : TensorView()};
    if (specs_.size() > 1) {
      inputs_.push_back(AddBlob(specs_[1].shape, true, {}));
      input_grads_.emplace_back();
    }
    for (const ParameterInfo& blob : info_.parameters) {
      parameters_.push_back(Add(blob.shape, DType::kF32, true).view());
      parameter_grads_.push_back(Add(blob.shape, DType::kF32, false).view());
    }
    for (const BlobSpec& blob : info_.saved) {
      saved_out_.push_back(Add(blob.shape, blob.dtype, false).view());
      saved_in_.push_back(saved_out_.back());
    }
    if (!training_) saved_out_.assign(saved_out_.size(), TensorView());
  }

  const Implementation& implementation_;
  const bool training_;
  bool supported_ = false;
  ExecContext context_;
  std::unique_ptr<const Layer> layer_;
  std::vector<BlobSpec> specs_;
  LayerInfo info_;
  std::unique_ptr<ImplementationState> implementation_state_;
  std::vector<std::byte> scratch_;
  std::vector<std::unique_ptr<Tensor>> tensors_;
  std::vector<ConstTensorView> inputs_, read_outputs_, output_grads_, parameters_, saved_in_;
  std::vector<TensorView> outputs_, input_grads_, parameter_grads_, saved_out_;
};

enum class Pass : uint8_t { kForward, kTrainingForward, kBackward };

void Run(benchmark::State& state, const LayerType& type, const LayerSpec& spec,
         const Implementation& implementation, Pass pass) {
  LayerRun run(type, spec, implementation, static_cast<int>(state.range(0)),
               pass != Pass::kForward);
  if (!run.supported()) return state.SkipWithError("is not for these shapes");
  run.Forward();
  for (auto _ : state) pass == Pass::kBackward ? run.Backward() : run.Forward();
  const double passes = pass == Pass::kBackward && spec.data_gradient ? 2 : 1;
  if (run.macs() > 0) {
    state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * passes * static_cast<double>(run.macs()),
                                                   benchmark::Counter::kIsIterationInvariantRate);
  }
}

void Register(const LayerType& type, const LayerSpec& spec, const Implementation& implementation) {
  const std::string name = std::string(spec.name) + "/" + implementation.name;
  for (const auto& [pass, word] :
       {std::pair{Pass::kForward, "/forward"}, std::pair{Pass::kTrainingForward, "/training"},
        std::pair{Pass::kBackward, "/backward"}}) {
    benchmark::RegisterBenchmark(
        (name + word).c_str(),
        [&, pass = pass](benchmark::State& state) { Run(state, type, spec, implementation, pass); })
        ->Arg(1)
        ->Arg(2)
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  }
}

const bool kRegistered = [] {
  static const Registry registry = BuiltinRegistry();
  for (const LayerSpec& spec : Specs()) {
    const LayerType& type = *registry.Find(spec.type);
    for (const ImplementationPtr& implementation : type.implementations) {
      const bool reference = implementation->name.find("reference") != std::string::npos;
      const bool supported = LayerRun(type, spec, *implementation, 1, false).supported() ||
                             LayerRun(type, spec, *implementation, 1, true).supported();
      if (!reference && supported) Register(type, spec, *implementation);
    }
  }
  return true;
}();

}  // namespace
