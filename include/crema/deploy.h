// Runs trained models: the C++ interface of libcrema_deploy. For C, see crema/crema.h.
//
//   crema::deploy::Model model = crema::deploy::Model::Open("m.crema");
//   crema::deploy::Runner runner(model);
//   runner.Run({{"data", crema::deploy::Type::kFloat32, {1, 3, 224, 224}, pixels}});
//   crema::deploy::Tensor answer = runner.Output("prob");
//
// All errors are thrown as crema::deploy::Error. Requires C++17.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#if defined(__GNUC__)
#define CREMA_API __attribute__((visibility("default")))
#else
#define CREMA_API
#endif

namespace crema::deploy {

// Returns the version of the library: "0.1.0".
CREMA_API const char* Version() noexcept;

enum class Code {
  kInvalidArgument = 1,  // the arguments do not fit the model, or it is not a model
  kNotFound = 2,         // a file does not exist
  kUnsupported = 3,      // not supported by this build
  kDataLoss = 4,         // a file is truncated or altered, or an image is damaged
  kIo = 5,               // the operating system failed to read
  kOutOfMemory = 6,
  kDevice = 7,    // the GPU failed
  kInternal = 8,  // a bug in Crema
};

class CREMA_API Error : public std::exception {
 public:
  Error(Code code, std::string message);
  ~Error() override;
  Code code() const noexcept { return code_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Code code_;
  std::string message_;
};

enum class Type { kFloat32 = 1, kUInt8 = 2 };

// An input or output of a model. A dimension of -1 means any size.
struct TensorInfo {
  std::string name;
  Type type = Type::kFloat32;
  std::vector<int64_t> shape;  // outermost first
};

// A view of host memory, row-major.
struct Tensor {
  std::string name;
  Type type = Type::kFloat32;
  std::vector<int64_t> shape;
  const void* data = nullptr;

  size_t count() const {
    size_t product = 1;
    for (const int64_t dim : shape) product *= static_cast<size_t>(dim);
    return product;
  }
  // Requires: the type is kFloat32.
  const float* floats() const { return static_cast<const float*>(data); }
};

struct Prediction {
  int index = 0;      // index of the class
  float score = 0;    // output of the net
  std::string label;  // empty if the model has none
};

struct KeyPoint {
  float x = 0;  // in pixels of the image
  float y = 0;
};

struct Detection {
  int index = 0;  // index of the class
  float score = 0;
  std::string label;  // empty if the model has none
  float left = 0;     // in pixels of the image, clipped to it
  float top = 0;
  float right = 0;
  float bottom = 0;
  std::vector<KeyPoint> keypoints;  // of models that have them
};

// The class of each pixel of an image, the first pixel first, row by row.
struct Segmentation {
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> classes;  // height x width
};

struct Options {
  int threads = 1;  // per runner; up to 1024
  int gpu = -1;     // GPU number; -1: the CPU
};

// Loads a shared library with layer types (docs/plugins.md) for models that are opened later. Its
// code runs in this process. Thread safety: any number of threads.
CREMA_API void LoadPlugin(const std::string& path);

// A net with its weights. A handle: copies share one model, which lives as long as any of them or a
// Runner. Thread safety: any number of threads.
class CREMA_API Model {
 public:
  // Opens a file written by `deploy export`. Maps its weights, so that processes share them. The
  // file may be replaced by renaming, but must not be written to while it is open. Or opens an ONNX
  // model, whose name ends in .onnx and whose inputs have fixed sizes.
  static Model Open(const std::string& path, const Options& options = {});
  // Opens a net as text (a deploy prototxt) and its weights: caffemodels, separated by commas;
  // later ones add and override.
  static Model FromCaffe(const std::string& net, const std::string& weights,
                         const Options& options = {});

  // Opens a cascade of nets that detects, such as MTCNN: the file that names them, as --cascade of
  // `deploy detect`. Its runners have Detect alone. All boxes have the label 1.
  static Model OpenCascade(const std::string& path, const Options& options = {});

  const std::string& name() const;
  const std::string& task() const;                 // "classify", "detect", "segment" or ""
  const std::vector<std::string>& labels() const;  // by class
  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  // Returns true if samples may be batched along the first axis of all inputs without changing
  // their results.
  bool Batches() const;

  struct Impl;

 private:
  friend class Runner;
  explicit Model(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// Runs a model. Each runner has its own memory for activations; weights are shared. Thread safety:
// one thread at a time; use one runner per thread.
class CREMA_API Runner {
 public:
  explicit Runner(const Model& model);
  ~Runner();
  Runner(Runner&& other) noexcept;
  Runner& operator=(Runner&& other) noexcept;

  // Takes each input once, in any order, of any shape that the net accepts. After an error the
  // runner remains usable, but has no outputs.
  void Run(const std::vector<Tensor>& inputs);
  // Returns an output of the last Run, valid until the next.
  Tensor Output(const std::string& name) const;

  // For models with one image input and one output: decodes an image file (JPEG, PNG, ...),
  // preprocesses it as the model specifies, runs, and returns the `most` best classes, best first.
  std::vector<Prediction> Classify(const void* image, size_t bytes, size_t most = 5);

  // For models that detect, and cascades: does the same, and returns the boxes with scores above
  // `confidence` (those of a cascade are also above the threshold of its last net), best first.
  // Without it, they are above that of the model's file, or 0.6.
  std::vector<Detection> Detect(const void* image, size_t bytes,
                                std::optional<double> confidence = std::nullopt);

  // For models that segment: does the same, and returns the best class of each pixel of the image.
  Segmentation Segment(const void* image, size_t bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crema::deploy
