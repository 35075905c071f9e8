// Running trained models: the C++ interface of libcrema_deploy. C has crema/crema.h.
//
//   crema::deploy::Model model = crema::deploy::Model::Open("m.crema");
//   crema::deploy::Runner runner(model);
//   runner.Run({{"data", crema::deploy::Type::kFloat32, {1, 3, 224, 224}, pixels}});
//   crema::deploy::Tensor answer = runner.Output("prob");
//
// Everything that fails throws crema::deploy::Error, and nothing else. C++17 is enough.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#if defined(__GNUC__)
#define CREMA_API __attribute__((visibility("default")))
#else
#define CREMA_API
#endif

namespace crema::deploy {

// The version of the library: "0.1.0".
CREMA_API const char* Version() noexcept;

enum class Code {
  kInvalidArgument = 1,  // what was asked for does not fit the model, or is no model
  kNotFound = 2,         // a file does not exist
  kUnsupported = 3,      // understood, but this build cannot do it
  kDataLoss = 4,         // a file is truncated or altered, or an image is broken
  kIo = 5,               // the operating system refused to read
  kOutOfMemory = 6,
  kDevice = 7,    // the GPU failed
  kInternal = 8,  // a bug of Crema
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

// An input or output of a model. An extent of -1 may be any.
struct TensorInfo {
  std::string name;
  Type type = Type::kFloat32;
  std::vector<int64_t> extents;  // outermost first
};

// Elements that belong to somebody else, row-major, of the host.
struct Tensor {
  std::string name;
  Type type = Type::kFloat32;
  std::vector<int64_t> extents;
  const void* data = nullptr;

  size_t count() const {
    size_t product = 1;
    for (const int64_t extent : extents) product *= static_cast<size_t>(extent);
    return product;
  }
  // Requires: kFloat32.
  const float* floats() const { return static_cast<const float*>(data); }
};

struct Prediction {
  int index = 0;      // of the class
  float score = 0;    // as the net gives it
  std::string label;  // empty where the model has none for it
};

struct Options {
  int threads = 1;  // of one runner; up to 1024
  int gpu = -1;     // its number; -1: the CPU
};

// A net with its weights. A handle: copies are the same model, which lives as long as one of them
// or a Runner. Thread safety: any number of threads.
class CREMA_API Model {
 public:
  // A file of `deploy export`. Weights are mapped: processes that open one file share them. The
  // file may be replaced by renaming, but not be written to while it is open.
  static Model Open(const std::string& path, const Options& options = {});
  // A net as text (a deploy prototxt) and its weights (a caffemodel).
  static Model FromCaffe(const std::string& net, const std::string& weights,
                         const Options& options = {});

  const std::string& name() const;
  const std::string& task() const;                 // "classify", "detect", "segment" or ""
  const std::vector<std::string>& labels() const;  // by class
  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  // Whether samples may be put together along the first axis of all inputs, to be answered as if
  // each were alone.
  bool Batches() const;

  struct Impl;

 private:
  friend class Runner;
  explicit Model(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

// Runs a model. Thread safety: one thread at a time; as many runners of one model as there are
// threads. Each has memory for what it computes; weights are shared.
class CREMA_API Runner {
 public:
  explicit Runner(const Model& model);
  ~Runner();
  Runner(Runner&& other) noexcept;
  Runner& operator=(Runner&& other) noexcept;

  // Each input once, in any order, of any extents that the net takes. After an error the runner can
  // be used on, but has no outputs.
  void Run(const std::vector<Tensor>& inputs);
  // Of the last Run; its elements are valid until the next.
  Tensor Output(const std::string& name) const;

  // For models with one input of images and one output: decodes an image file (JPEG, PNG, ...),
  // prepares it as the model says, runs, and returns the `most` best classes, best first.
  std::vector<Prediction> Classify(const void* image, size_t bytes, size_t most = 5);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crema::deploy
