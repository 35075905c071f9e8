#include "arrays.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>

#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "feed.h"

namespace crema::python {
namespace {

nb::dlpack::dtype ElementType(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return nb::dtype<float>();
    case DType::kF64:
      return nb::dtype<double>();
    case DType::kU8:
      return nb::dtype<uint8_t>();
    default:
      Fail(ErrorCode::kUnsupported,
           StrCat("a blob of ", ToString(dtype), " cannot be a NumPy array"));
  }
}

// Returns a size of a blob that is seen as one of four axes, as in old Caffe.
int64_t LegacySize(const Shape& shape, int axis) {
  if (shape.axes() > 4) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("num, channels, height and width are of blobs with up to 4 axes, and this one is ",
                ToString(shape), "; use shape"));
  }
  return axis < shape.axes() ? shape[axis] : 1;
}

}  // namespace

nb::object ArrayOf(const HeldView& held) {
  const auto dims = held.view.shape().dims();
  const std::vector<size_t> sizes(dims.begin(), dims.end());
  auto owner = std::make_unique<std::shared_ptr<const void>>(held.owner);
  const nb::capsule capsule(
      owner.get(), [](void* p) noexcept { delete static_cast<std::shared_ptr<const void>*>(p); });
  (void)owner.release();
  const nb::ndarray<nb::numpy> array(held.view.raw(), sizes.size(), sizes.data(), capsule, nullptr,
                                     ElementType(held.view.dtype()));
  return nb::cast(array, nb::rv_policy::reference);
}

nb::tuple TupleOf(const Shape& shape) {
  nb::list sizes;
  for (const int64_t size : shape.dims()) sizes.append(size);
  return nb::tuple(sizes);
}

Shape ShapeOf(const nb::args& sizes) {
  const bool is_sequence = sizes.size() == 1 && PySequence_Check(sizes[0].ptr()) != 0;
  std::vector<int64_t> dims;
  for (const nb::handle size : nb::tuple(is_sequence ? nb::object(sizes[0]) : nb::object(sizes))) {
    const auto number = nb::steal(PyNumber_Index(size.ptr()));  // also an integer of NumPy
    if (!number.is_valid()) throw nb::python_error();
    dims.push_back(PyLong_AsLongLong(number.ptr()));
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
  }
  return Shape(std::span<const int64_t>(dims));
}

void RequireCallable(nb::handle callback) {
  if (PyCallable_Check(callback.ptr()) != 0) return;
  throw nb::type_error(
      StrCat("a callback is a function, not ", nb::repr(callback).c_str()).c_str());
}

std::vector<std::string> NamesOf(const Paths& paths) {
  if (const auto* const one = std::get_if<Path>(&paths)) return {one->string()};
  std::vector<std::string> names;
  for (const Path& path : std::get<std::vector<Path>>(paths)) names.push_back(path.string());
  return names;
}

std::optional<std::string> PathOf(nb::handle given) {
  if (!nb::isinstance<nb::str>(given) && !nb::hasattr(given, "__fspath__")) return std::nullopt;
  std::filesystem::path path;
  if (!nb::try_cast(given, path)) throw nb::value_error("this is no path");
  return path.string();
}

GrowingRegistry& AllLayers() {
  // Never destroyed: threads may compute while the process exits.
  static GrowingRegistry& registry = *new GrowingRegistry([] {
    const Registry builtin = BuiltinRegistry();
    Registry all;
    for (const std::string& name : builtin.Names()) {
      LayerType type = *builtin.Find(name);
      if (name == "Input") LetInputReadFeeds(&type);
      all.Add(std::move(type));
    }
    return all;
  }());
  return registry;
}

const Registry& Layers() { return AllLayers().Now(); }

struct Guard::Thread {
  const Guard* waits_for = nullptr;
  const std::weak_ptr<Guard>* fed = nullptr;  // null: it makes no data
};

Guard::Thread& Guard::ThisThread() {
  thread_local Thread thread;
  return thread;
}

// Throws if waiting for this guard would never end.
void Guard::RequireEnd() const {
  if (process_ != ProcessNumber()) {
    Fail(ErrorCode::kInvalidArgument,
         "another thread was running this net when the process was forked; open it again here");
  }
  for (const Guard* guard = this; guard != nullptr && guard->owner_ != nullptr;
       guard = guard->owner_->waits_for) {
    if (guard->owner_ != &ThisThread()) continue;
    Fail(ErrorCode::kInvalidArgument,
         "a layer, a callback or data call a net whose thread waits for the net that runs them");
  }
}

Guard::Lock::Lock(Guard& guard) : guard_(guard) {
  Thread& thread = ThisThread();
  if (thread.fed != nullptr && thread.fed->lock().get() == &guard) {
    Fail(ErrorCode::kInvalidArgument,
         "data cannot use the net that they feed while they make a batch, since the net waits for "
         "it; let a callback keep a copy of what the data need");
  }
  if (!guard.mutex_.try_lock()) {
    guard.RequireEnd();
    const Guard* const before = std::exchange(thread.waits_for, &guard);
    {
      const GilReleased released;
      guard.mutex_.lock();
    }
    thread.waits_for = before;
  }
  guard.owner_ = &thread;
  guard.process_ = ProcessNumber();
  ++guard.depth_;
}

Guard::Lock::~Lock() {
  if (--guard_.depth_ == 0) guard_.owner_ = nullptr;
  guard_.mutex_.unlock();
}

void Guard::Enter(const std::weak_ptr<Guard>* fed) {
  owner_ = &ThisThread();
  process_ = ProcessNumber();
  ThisThread().fed = fed;
}

void Guard::Leave() {
  owner_ = nullptr;
  ThisThread().fed = nullptr;
}

const Guard* Guard::BeginWait() {
  if (process_ != ProcessNumber()) owner_ = nullptr;  // that thread is not in this process
  process_ = ProcessNumber();
  RequireEnd();
  return std::exchange(ThisThread().waits_for, this);
}

void Guard::EndWait(const Guard* before) { ThisThread().waits_for = before; }

Guard::Run::Run(Guard& guard) : lock_(guard), guard_(guard) {
  if (std::exchange(guard.running_, true)) {
    Fail(ErrorCode::kInvalidArgument,
         "a layer or a callback cannot run or change the net that is running it");
  }
}

void BindBlobs(nb::module_& module) {
  nb::class_<Blob>(module, "Blob", "Values and gradients of a blob or a parameter.")
      .def_prop_ro(
          "data", [](Blob& blob) { return ArrayOf(blob.Data()); },
          nb::sig("def data(self) -> numpy.typing.NDArray[typing.Any]"),
          "The values: a NumPy array over the memory of the net.")
      .def_prop_ro(
          "diff", [](Blob& blob) { return ArrayOf(blob.Gradient()); },
          nb::sig("def diff(self) -> numpy.typing.NDArray[typing.Any]"),
          "The gradients: a NumPy array over the memory of the net.")
      .def_prop_ro(
          "shape", [](Blob& blob) { return TupleOf(blob.GetShape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("num", [](Blob& blob) { return LegacySize(blob.GetShape(), 0); })
      .def_prop_ro("channels", [](Blob& blob) { return LegacySize(blob.GetShape(), 1); })
      .def_prop_ro("height", [](Blob& blob) { return LegacySize(blob.GetShape(), 2); })
      .def_prop_ro("width", [](Blob& blob) { return LegacySize(blob.GetShape(), 3); })
      .def_prop_ro("count", [](Blob& blob) { return blob.GetShape().count(); })
      .def(
          "__dlpack__",
          [](nb::handle blob, const nb::kwargs& options) {
            return nb::object(blob.attr("data").attr("__dlpack__")(**options));
          },
          nb::sig("def __dlpack__(self, **options: typing.Any) -> typing.Any"), "That of `data`.")
      .def(
          "__dlpack_device__",
          [](nb::handle blob) { return nb::object(blob.attr("data").attr("__dlpack_device__")()); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def(
          "reshape", [](Blob& blob, const nb::args& sizes) { blob.Reshape(ShapeOf(sizes)); },
          nb::sig("def reshape(self, *sizes: int | collections.abc.Sequence[int]) -> None"),
          "Gives an input of the net, or a top of a Python layer, another shape.");
}

}  // namespace crema::python
