/* Layer types in a shared library that Crema loads: --plugin=my_layers.so. See docs/plugins.md.
 *
 * The first part is a C interface whose binary layout does not change: structures begin with their
 * size and only grow at the end; members of arrays (shapes, tensors) never change. No exception may
 * leave a function of a plugin. The second part, namespace crema::plugin, is the same for C++17:
 * all of it is inline, so that a plugin needs this file and nothing to link. */
#ifndef CREMA_PLUGIN_H_
#define CREMA_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

/* Changes if the layout does; Crema refuses plugins of another number. */
#define CREMA_PLUGIN_ABI 1
#define CREMA_PLUGIN_MAX_AXES 32
#define CREMA_PLUGIN_MAX_BLOBS 64 /* bottoms or tops of a layer */

#ifdef __cplusplus
extern "C" {
#endif

/* What functions return. */
enum {
  CREMA_PLUGIN_OK = 0,
  CREMA_PLUGIN_INVALID = 1, /* the parameters or shapes are wrong; the user can correct them */
  CREMA_PLUGIN_UNSUPPORTED = 2,
  CREMA_PLUGIN_OUT_OF_MEMORY = 3,
  CREMA_PLUGIN_DEVICE = 4 /* the GPU failed */
};

enum { CREMA_PLUGIN_TRAIN = 0, CREMA_PLUGIN_TEST = 1 }; /* phases */

/* Element types. Nets compute in floats; doubles are for tests of gradients. */
enum { CREMA_PLUGIN_FLOAT32 = 1, CREMA_PLUGIN_FLOAT64 = 2 };

/* The elements of the bottoms that an element of a top depends on. */
enum {
  CREMA_PLUGIN_REACH_ALL = 0,
  CREMA_PLUGIN_REACH_SAMPLE = 1, /* those at the same index of axis 0 */
  CREMA_PLUGIN_REACH_PLACE = 2,  /* that at the same place; a channel is computed alike */
  CREMA_PLUGIN_REACH_ELEMENT = 3 /* the same, and all elements are computed alike */
};

/* Flags of crema_plugin_infer. */
enum {
  CREMA_PLUGIN_IN_PLACE = 1,  /* top 0 may be bottom 0, and its gradient that of bottom 0 */
  CREMA_PLUGIN_CONSTANT = 2,  /* tops depend on shapes and parameters, and not on bottoms */
  CREMA_PLUGIN_MOVES_ONLY = 4 /* each element of a top is one of a bottom, or a constant */
};

typedef struct crema_plugin_error {
  char message[1024]; /* zero-terminated UTF-8; Crema adds the layer and its place */
} crema_plugin_error;

typedef struct crema_plugin_shape {
  int32_t axes;
  int64_t sizes[CREMA_PLUGIN_MAX_AXES]; /* outermost first */
} crema_plugin_shape;

/* Dense elements, row-major. */
typedef struct crema_plugin_tensor {
  void* data; /* NULL: not wanted, or not declared as read */
  int64_t count;
  const int64_t* sizes;
  int32_t axes;
} crema_plugin_tensor;

typedef struct crema_plugin_parameter {
  size_t struct_size;
  const char* role; /* "weight" */
  int32_t axes;
  const int64_t* sizes;
  const char* filler; /* a FillerParameter as text: "type: 'xavier'"; NULL: zeros */
} crema_plugin_parameter;

/* Crema sets the first members, zeroes the others, and reads those after infer. Bits are counted
 * from the lowest. */
typedef struct crema_plugin_infer {
  size_t struct_size;
  int32_t phase;
  int32_t type; /* of all elements */
  int32_t bottom_count;
  int32_t top_count;
  const crema_plugin_tensor* bottoms; /* without data */

  crema_plugin_shape* tops; /* to be set, all */
  /* Adds a parameter, in order; copies it. */
  void (*add_parameter)(struct crema_plugin_infer* infer, const crema_plugin_parameter* parameter);
  uint64_t backward_reads_bottoms; /* one bit each */
  uint64_t backward_reads_tops;
  uint64_t no_gradient;    /* bottoms that never get one (labels) */
  uint64_t shared_bottoms; /* all samples depend on them, whatever `reach` says */
  int32_t reach;
  uint32_t flags;
  size_t saved_bytes; /* written by forward, read by backward */
  size_t scratch_bytes;
  size_t scratch_bytes_per_thread;
  void* host; /* Crema's own */
} crema_plugin_infer;

/* One forward or backward pass. Forward writes all of `tops`. Backward overwrites bottom_gradients
 * and adds to parameter_gradients; those without data are not wanted. */
typedef struct crema_plugin_pass {
  size_t struct_size;
  int32_t phase;
  int32_t type;
  int32_t threads;
  int32_t bottom_count, top_count, parameter_count;
  const crema_plugin_tensor* bottoms;
  const crema_plugin_tensor* tops;
  const crema_plugin_tensor* parameters;
  const crema_plugin_tensor* bottom_gradients;    /* backward; else NULL */
  const crema_plugin_tensor* top_gradients;       /* the same */
  const crema_plugin_tensor* parameter_gradients; /* the same */
  void* saved;                                    /* NULL: no backward pass follows */
  void* scratch;
  size_t scratch_bytes;
  void* state;   /* of open_state */
  uint64_t seed; /* for random numbers: differs by layer and iteration; 0 on a GPU */
  /* Calls body for consecutive pieces of 0 .. count - 1, each on a thread of its own, if they have
   * `grain` elements or more. The pieces depend on the arguments and `threads` alone. Returns
   * non-zero if threads cannot be started; return an error then. On the CPU only. */
  int32_t (*parallel_for)(const struct crema_plugin_pass* pass, int64_t count, int64_t grain,
                          void (*body)(void* data, int64_t begin, int64_t end, int32_t thread),
                          void* data);
  void* stream; /* cuda_forward, cuda_backward: the cudaStream_t for all work. They do not wait */
  void* host;   /* Crema's own */
} crema_plugin_pass;

/* A layer type. A layer is constant once it is made: several threads may use it at once. */
typedef struct crema_plugin_layer {
  size_t struct_size;
  const char* type;    /* as in `type: "..."` */
  const char* summary; /* one sentence, or NULL */
  int32_t min_bottoms, max_bottoms, min_tops, max_tops;
  double loss_weight; /* default of top 0; 1 for a loss, else 0 */
  /* Makes a layer from plugin_param.param_str of the net. */
  int32_t (*create)(const char* param_str, void** layer, crema_plugin_error* error);
  void (*destroy)(void* layer);
  int32_t (*infer)(const void* layer, crema_plugin_infer* infer, crema_plugin_error* error);
  int32_t (*forward)(const void* layer, const crema_plugin_pass* pass, crema_plugin_error* error);
  /* May be NULL, as all that follow: the layer has no gradient. */
  int32_t (*backward)(const void* layer, const crema_plugin_pass* pass, crema_plugin_error* error);
  /* The same on a GPU, for floats: all pointers to elements are of the GPU, and so is scratch. */
  int32_t (*cuda_forward)(const void* layer, const crema_plugin_pass* pass,
                          crema_plugin_error* error);
  int32_t (*cuda_backward)(const void* layer, const crema_plugin_pass* pass,
                           crema_plugin_error* error);
  /* What a layer changes while it runs; one for each session, used by one thread at a time. */
  int32_t (*open_state)(const void* layer, void** state, crema_plugin_error* error);
  void (*close_state)(void* state);
} crema_plugin_layer;

/* The first four members never change, in no ABI. */
typedef struct crema_plugin_info {
  size_t struct_size;
  uint32_t abi; /* CREMA_PLUGIN_ABI */
  const char* name;
  const char* version;
  size_t layer_count;
  const crema_plugin_layer* const* layers;
} crema_plugin_info;

/* A plugin defines this function. The result, NULL without memory, is valid as long as the library
 * is loaded. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const crema_plugin_info*
crema_plugin(void);

#ifdef __cplusplus
} /* extern "C" */

#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace crema {
namespace plugin {

/* The text of plugin_param.param_str: "scale: 0.5, mode: soft". A layer may instead read text()
 * in a form of its own. Errors are thrown as std::invalid_argument. */
class Params {
 public:
  explicit Params(std::string text) : text_(std::move(text)) {}

  const std::string& text() const {
    read_text_ = true;
    return text_;
  }
  std::string Text(const std::string& name, const std::string& otherwise) const {
    Parse();
    const auto found = values_.find(name);
    if (found == values_.end()) return otherwise;
    used_.insert(name);
    return found->second;
  }
  double Number(const std::string& name, double otherwise) const {
    const std::string value = Text(name, "");
    if (value.empty()) return otherwise;
    size_t end = 0;
    double number = 0;
    try {
      number = std::stod(value, &end);
    } catch (const std::exception&) {
      end = 0;
    }
    if (end != value.size()) throw std::invalid_argument(name + " is '" + value + "', no number");
    return number;
  }
  /* Throws if a name was not asked for; called once the layer is made. */
  void RefuseUnknown() const {
    if (read_text_) return;
    Parse();
    for (const auto& entry : values_) {
      if (used_.count(entry.first) == 0) {
        throw std::invalid_argument("there is no parameter '" + entry.first + "'");
      }
    }
  }

 private:
  static std::string Trimmed(const std::string& text) {
    const size_t begin = text.find_first_not_of(" \t\n");
    if (begin == std::string::npos) return "";
    return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
  }
  void Parse() const {
    if (!values_.empty()) return;
    for (size_t begin = 0; begin < text_.size();) {
      const size_t end = std::min(text_.find(',', begin), text_.size());
      const std::string entry = Trimmed(text_.substr(begin, end - begin));
      begin = end + 1;
      if (entry.empty()) continue;
      const size_t colon = entry.find(':');
      const std::string value = colon == std::string::npos ? "" : Trimmed(entry.substr(colon + 1));
      if (value.empty()) throw std::invalid_argument("'" + entry + "' is not NAME: VALUE");
      values_[Trimmed(entry.substr(0, colon))] = value;
    }
  }

  std::string text_;
  mutable bool read_text_ = false;
  mutable std::map<std::string, std::string> values_;
  mutable std::set<std::string> used_;
};

using Shape = std::vector<int64_t>;

enum class Reach : int32_t { kAll, kSample, kPlace, kElement }; /* CREMA_PLUGIN_REACH_... */

/* What a layer needs; see crema_plugin_infer, of which `raw` has the other members. */
struct Infer {
  crema_plugin_infer* raw;

  int bottoms() const { return raw->bottom_count; }
  int tops() const { return raw->top_count; }
  Shape bottom(int i) const {
    const crema_plugin_tensor& bottom = raw->bottoms[i];
    return Shape(bottom.sizes, bottom.sizes + bottom.axes);
  }
  void SetTop(int i, const Shape& shape) {
    if (shape.size() > CREMA_PLUGIN_MAX_AXES) throw std::invalid_argument("a top of over 32 axes");
    raw->tops[i].axes = static_cast<int32_t>(shape.size());
    for (size_t axis = 0; axis < shape.size(); ++axis) raw->tops[i].sizes[axis] = shape[axis];
  }
  void AddParameter(const char* role, const Shape& shape, const char* filler = nullptr) {
    const crema_plugin_parameter parameter = {sizeof(crema_plugin_parameter), role,
                                              static_cast<int32_t>(shape.size()), shape.data(),
                                              filler};
    raw->add_parameter(raw, &parameter);
  }
  void BackwardReadsBottom(int i) { raw->backward_reads_bottoms |= uint64_t{1} << i; }
  void BackwardReadsTop(int i) { raw->backward_reads_tops |= uint64_t{1} << i; }
  void NoGradient(int bottom) { raw->no_gradient |= uint64_t{1} << bottom; }
  void SetReach(Reach reach) { raw->reach = static_cast<int32_t>(reach); }
  void AllowInPlace() { raw->flags |= CREMA_PLUGIN_IN_PLACE; }
};

/* Elements of a tensor; data() is null if it is not wanted or not declared as read. */
template <typename T>
class Tensor {
 public:
  explicit Tensor(const crema_plugin_tensor& raw) : raw_(raw) {}
  T* data() const { return static_cast<T*>(raw_.data); }
  int64_t count() const { return raw_.count; }
  int axes() const { return raw_.axes; }
  int64_t size(int axis) const { return raw_.sizes[axis]; }
  bool empty() const { return raw_.data == nullptr; }

 private:
  crema_plugin_tensor raw_;
};

/* A pass over elements of T: float, or double in tests of gradients. */
template <typename T>
class Pass {
 public:
  explicit Pass(const crema_plugin_pass* raw) : raw_(*raw) {}

  Tensor<const T> bottom(int i = 0) const { return Tensor<const T>(raw_.bottoms[i]); }
  Tensor<T> top(int i = 0) const { return Tensor<T>(raw_.tops[i]); }
  Tensor<const T> parameter(int i = 0) const { return Tensor<const T>(raw_.parameters[i]); }
  Tensor<T> bottom_gradient(int i = 0) const { return Tensor<T>(raw_.bottom_gradients[i]); }
  Tensor<const T> top_gradient(int i = 0) const { return Tensor<const T>(raw_.top_gradients[i]); }
  Tensor<T> parameter_gradient(int i = 0) const { return Tensor<T>(raw_.parameter_gradients[i]); }
  bool is_training() const { return raw_.phase == CREMA_PLUGIN_TRAIN; }
  int threads() const { return raw_.threads; }
  void* stream() const { return raw_.stream; } /* cudaStream_t */
  template <typename State>
  State& state() const {
    return *static_cast<State*>(raw_.state);
  }
  const crema_plugin_pass& raw() const { return raw_; }

  /* Calls body(begin, end) for consecutive pieces of 0 .. count - 1 on several threads. */
  template <typename Body>
  void ParallelFor(int64_t count, const Body& body, int64_t grain = 4096) const {
    struct Call {
      const Body& body;
      std::mutex mutex;
      std::exception_ptr failure;
    } call{body, {}, nullptr};
    const auto run = [](void* data, int64_t begin, int64_t end, int32_t) {
      Call& of = *static_cast<Call*>(data);
      try {
        of.body(begin, end);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(of.mutex);
        of.failure = std::current_exception();
      }
    };
    if (raw_.parallel_for(&raw_, count, grain, run, &call) != 0) throw std::bad_alloc();
    if (call.failure) std::rethrow_exception(call.failure);
  }

 private:
  crema_plugin_pass raw_;
};

namespace internal {

template <typename Body>
int32_t Caught(crema_plugin_error* error, const Body& body) noexcept {
  const auto tell = [error](const char* message) {
    std::strncpy(error->message, message, sizeof(error->message) - 1);
  };
  try {
    body();
    return CREMA_PLUGIN_OK;
  } catch (const std::bad_alloc&) {
    tell("out of memory");
    return CREMA_PLUGIN_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    tell(e.what());
  } catch (...) {
    tell("an exception that is no std::exception");
  }
  return CREMA_PLUGIN_INVALID;
}

template <typename Layer>
struct Functions {
  static const Layer& Of(const void* layer) { return *static_cast<const Layer*>(layer); }
  static int32_t Create(const char* param_str, void** layer, crema_plugin_error* error) noexcept {
    return Caught(error, [&] {
      const Params params(param_str);
      std::unique_ptr<Layer> made(new Layer(params));
      params.RefuseUnknown();
      *layer = made.release();
    });
  }
  static void Destroy(void* layer) noexcept { delete static_cast<Layer*>(layer); }
  static int32_t DoInfer(const void* layer, crema_plugin_infer* raw,
                         crema_plugin_error* error) noexcept {
    return Caught(error, [&] {
      Infer infer{raw};
      Of(layer).Infer(infer);
    });
  }
  static int32_t Forward(const void* layer, const crema_plugin_pass* pass,
                         crema_plugin_error* error) noexcept {
    return Caught(error, [&] {
      if (pass->type == CREMA_PLUGIN_FLOAT32) return Of(layer).Forward(Pass<float>(pass));
      Of(layer).Forward(Pass<double>(pass));
    });
  }
  static int32_t Backward(const void* layer, const crema_plugin_pass* pass,
                          crema_plugin_error* error) noexcept {
    return Caught(error, [&] {
      if (pass->type == CREMA_PLUGIN_FLOAT32) return Of(layer).Backward(Pass<float>(pass));
      Of(layer).Backward(Pass<double>(pass));
    });
  }
  static int32_t CudaForward(const void* layer, const crema_plugin_pass* pass,
                             crema_plugin_error* error) noexcept {
    return Caught(error, [&] { Of(layer).CudaForward(Pass<float>(pass)); });
  }
  static int32_t CudaBackward(const void* layer, const crema_plugin_pass* pass,
                              crema_plugin_error* error) noexcept {
    return Caught(error, [&] { Of(layer).CudaBackward(Pass<float>(pass)); });
  }
};

/* Whether a layer has the optional methods and types. */
template <typename Layer, typename = void>
struct HasBackward : std::false_type {};
template <typename Layer>
struct HasBackward<Layer, std::void_t<decltype(std::declval<const Layer&>().Backward(
                              std::declval<const Pass<float>&>()))>> : std::true_type {};
template <typename Layer, typename = void>
struct HasCudaForward : std::false_type {};
template <typename Layer>
struct HasCudaForward<Layer, std::void_t<decltype(&Layer::CudaForward)>> : std::true_type {};
template <typename Layer, typename = void>
struct HasCudaBackward : std::false_type {};
template <typename Layer>
struct HasCudaBackward<Layer, std::void_t<decltype(&Layer::CudaBackward)>> : std::true_type {};
template <typename Layer, typename = void>
struct HasState : std::false_type {};
template <typename Layer>
struct HasState<Layer, std::void_t<typename Layer::State>> : std::true_type {};

}  // namespace internal

/* Describes a class with
 *   explicit Layer(const Params&);
 *   void Infer(Infer&) const;
 *   template <typename T> void Forward(const Pass<T>&) const;
 * and optionally Backward like Forward, CudaForward and CudaBackward of Pass<float>, and State, a
 * type of which each session gets an object. */
template <typename Layer>
crema_plugin_layer Describe(const char* type, int bottoms = 1, int tops = 1,
                            double loss_weight = 0) {
  using F = internal::Functions<Layer>;
  crema_plugin_layer layer = {};
  layer.struct_size = sizeof(layer);
  layer.type = type;
  layer.min_bottoms = layer.max_bottoms = bottoms;
  layer.min_tops = layer.max_tops = tops;
  layer.loss_weight = loss_weight;
  layer.create = F::Create;
  layer.destroy = F::Destroy;
  layer.infer = F::DoInfer;
  layer.forward = F::Forward;
  if constexpr (internal::HasBackward<Layer>::value) layer.backward = F::Backward;
  if constexpr (internal::HasCudaForward<Layer>::value) layer.cuda_forward = F::CudaForward;
  if constexpr (internal::HasCudaBackward<Layer>::value) layer.cuda_backward = F::CudaBackward;
  if constexpr (internal::HasState<Layer>::value) {
    layer.open_state = [](const void*, void** state, crema_plugin_error* error) {
      return internal::Caught(error, [&] { *state = new typename Layer::State(); });
    };
    layer.close_state = [](void* state) { delete static_cast<typename Layer::State*>(state); };
  }
  return layer;
}

namespace internal {

struct Contents {
  explicit Contents(std::vector<crema_plugin_layer> all) : layers(std::move(all)) {
    for (const crema_plugin_layer& layer : layers) pointers.push_back(&layer);
  }
  std::vector<crema_plugin_layer> layers;
  std::vector<const crema_plugin_layer*> pointers;
};

}  // namespace internal
}  // namespace plugin
}  // namespace crema

/* Defines the plugin, in one source: CREMA_PLUGIN("name", "1.0", Describe<A>("A"), ...). */
#define CREMA_PLUGIN(plugin_name, plugin_version, ...)                                     \
  extern "C" const crema_plugin_info* crema_plugin() {                                     \
    using namespace crema::plugin; /* NOLINT */                                            \
    try {                                                                                  \
      static const internal::Contents contents({__VA_ARGS__});                             \
      static const crema_plugin_info info = {                                              \
          sizeof(crema_plugin_info), CREMA_PLUGIN_ABI,        plugin_name, plugin_version, \
          contents.pointers.size(),  contents.pointers.data()};                            \
      return &info;                                                                        \
    } catch (...) {                                                                        \
      return nullptr;                                                                      \
    }                                                                                      \
  }

#endif /* __cplusplus */

#endif /* CREMA_PLUGIN_H_ */
