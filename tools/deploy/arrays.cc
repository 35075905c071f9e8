#include "deploy/arrays.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "core/whole_number.h"
#include "deploy/options.h"
#include "format/tensor_files.h"

DEFINE_string(
    input, "",
    "[Input NAME=FILE repeated @run @bench @verify @export] NAME=FILE with an array for an input, "
    ".npy, "
    ".npz or "
    ".h5, or FILE alone if "
    "it has arrays with the names of the inputs, or if there is one input; may be repeated");
DEFINE_bool(cast, false,
            "[Input @run @bench @verify @export] convert arrays of other element types to those of "
            "the inputs");

DECLARE_string(recording);
DECLARE_bool(record);

namespace crema::tools {
namespace {

// NumPy's names, familiar to users of .npy.
std::string NameOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kF64:
      return "float64";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kU8:
      return "uint8";
    case DType::kI32:
      return "int32";
    case DType::kI64:
      return "int64";
  }
  return "unknown";
}

template <typename Body>
void WithType(DType dtype, const Body& body) {
  if (dtype == DType::kF32) return body(float{});
  if (dtype == DType::kF64) return body(double{});
  if (dtype == DType::kU8) return body(uint8_t{});
  if (dtype == DType::kI32) return body(int32_t{});
  if (dtype == DType::kI64) return body(int64_t{});
  Fail(ErrorCode::kUnsupported, StrCat("arrays of ", NameOf(dtype), " cannot be cast"));
}

bool CanCast(DType dtype) { return dtype != DType::kF16 && dtype != DType::kBF16; }

// Returns false for a whole number that no float32 is.
template <typename T>
bool IsFloat(T value) {
  if constexpr (std::is_integral_v<T>) return IsExactFloat(value);
  return true;
}

// Throws for values that the other type cannot represent.
Tensor Cast(const ConstTensorView& from, DType dtype, const std::string& what) {
  Tensor to(from.shape(), dtype);
  const auto count = static_cast<size_t>(from.count());
  WithType(from.dtype(), [&]<typename F>(F) {
    WithType(dtype, [&]<typename T>(T) {
      const auto* x = static_cast<const F*>(from.raw());
      auto* y = static_cast<T*>(to.view().raw());
      for (size_t i = 0; i < count; ++i) {
        const auto value = static_cast<double>(x[i]);
        if constexpr (std::is_integral_v<T>) {
          const bool fits = value >= static_cast<double>(std::numeric_limits<T>::min()) &&
                            value < static_cast<double>(std::numeric_limits<T>::max()) + 1 &&
                            value == std::floor(value);
          if (!fits) {
            Fail(ErrorCode::kInvalidArgument,
                 StrCat(what, ": ", value, " at element ", i, " is no ", NameOf(dtype)));
          }
        } else if (std::is_same_v<T, float> && !IsFloat(x[i])) {
          Fail(ErrorCode::kInvalidArgument,
               StrCat(what, ": ", x[i], " at element ", i, " is no float32, which holds whole ",
                      "numbers up to 2^24, and few beyond"));
        }
        y[i] = static_cast<T>(x[i]);
      }
    });
  });
  return to;
}

// Converts an array to the type and shape of an input.
Tensor Fitted(const BlobInfo& blob, Tensor value, const std::string& what) {
  const ConstTensorView view = std::as_const(value).view();
  const auto axes = static_cast<int>(blob.shape.size());
  if (view.shape().axes() != axes) {
    const bool one_sample = view.shape().axes() + 1 == axes;
    Fail(ErrorCode::kInvalidArgument,
         StrCat(what, " is ", ToString(view.shape()), ", but the input is ", Describe(blob),
                one_sample ? "; one sample needs an axis of 1 in front: x[numpy.newaxis]" : ""));
  }
  if (view.dtype() == blob.dtype) return value;
  if (!FLAGS_cast || !CanCast(view.dtype())) {
    // NumPy rounds whole numbers without a word.
    const bool whole = view.dtype() == DType::kI32 || view.dtype() == DType::kI64;
    Fail(ErrorCode::kInvalidArgument,
         StrCat(what, " holds ", NameOf(view.dtype()), ", but the input is ", Describe(blob),
                whole ? "; give --cast"
                      : StrCat("; save it with .astype(numpy.", NameOf(blob.dtype), ")",
                               CanCast(view.dtype()) ? ", or give --cast" : "")));
  }
  return Cast(view, blob.dtype, what);
}

// "data=x.npy", or "x.npy" without a name.
struct InputEntry {
  explicit InputEntry(const std::string& entry) : path(entry) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) return;
    name = entry.substr(0, equals);
    path = entry.substr(equals + 1);
  }
  std::string name;
  std::string path;
};

class InputSet {
 public:
  explicit InputSet(const Model& model) : model_(model) {
    for (const BlobInfo& blob : model.inputs()) names_.push_back(blob.name);
  }

  // Reads only the arrays that are inputs.
  void Add(const InputEntry& entry) {
    const std::string& name = entry.name;
    const std::string& path = entry.path;
    const bool named = !name.empty();
    std::vector<std::string> there = ArrayNames(path);
    if (there.empty()) Fail(ErrorCode::kDataLoss, "has no arrays", {.file = path});
    if (there.size() == 1 && (named || names_.size() == 1)) {
      const std::string& input = named ? name : names_[0];
      CheckName(input);
      Take(input, std::move(ReadArrays(path, there)[0].value), path);
      return;
    }
    std::erase_if(there, [&](const std::string& array) {
      return named ? array != name : std::ranges::count(names_, array) == 0;
    });
    for (const std::string& array : there) CheckName(array);
    for (NamedArray& array : ReadArrays(path, there)) {
      Take(array.name, std::move(array.value), path);
    }
    if (!there.empty()) return;
    Fail(ErrorCode::kInvalidArgument,
         StrCat(path, named ? StrCat(" has no array '", name, "'")
                            : " has no array of the name of an input; its inputs are " +
                                  Join(names_, ", ") + ": write --input=NAME=FILE"));
  }

  std::vector<NamedOutput> Finish() {
    for (const std::string& name : names_) {
      if (std::ranges::count(inputs_, name, &NamedOutput::name) > 0) continue;
      Fail(ErrorCode::kInvalidArgument,
           StrCat("input '", name, "' is missing: give --input=", name, "=FILE"));
    }
    return std::move(inputs_);
  }

 private:
  void CheckName(const std::string& name) const {
    if (std::ranges::count(names_, name) == 0) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the net has no input '", name, "'", DidYouMean(name, names_),
                  "; its inputs: ", Join(names_, " ")));
    }
    if (std::ranges::count(inputs_, name, &NamedOutput::name) > 0) {
      Fail(ErrorCode::kInvalidArgument, StrCat("input '", name, "' is given twice"));
    }
  }

  void Take(const std::string& name, Tensor value, const std::string& path) {
    const auto blob = std::ranges::find(model_.inputs(), name, &BlobInfo::name);
    const std::string what = StrCat("'", name, "' of ", path);
    inputs_.push_back({name, Fitted(*blob, std::move(value), what)});
  }

  const Model& model_;
  std::vector<std::string> names_;
  std::vector<NamedOutput> inputs_;
};

}  // namespace

std::string Describe(const BlobInfo& blob) {
  std::vector<std::string> dims;
  for (int64_t dim : blob.shape) dims.push_back(dim < 0 ? "N" : std::to_string(dim));
  return StrCat(blob.name, " ", NameOf(blob.dtype), " ", dims.empty() ? "scalar" : Join(dims, "x"));
}

// gflags keeps only the last value of a flag.
std::vector<std::string> ValuesOfFlag(const std::string& flag) {
  std::vector<std::string> values;
  const std::vector<std::string>& words = google::GetArgvs();
  for (size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    std::string_view word = words[i];
    if (!word.starts_with("-")) continue;
    word.remove_prefix(word.starts_with("--") ? 2 : 1);
    std::string value;
    if (word == flag && i + 1 < words.size()) {
      value = words[i + 1];
    } else if (word.starts_with(flag + "=")) {
      value = word.substr(flag.size() + 1);
    }
    for (const std::string& part : Split(value, ',')) {
      if (!Trim(part).empty()) values.emplace_back(Trim(part));
    }
  }
  return values;
}

bool HasInputFiles() { return !FLAGS_input.empty(); }

std::vector<std::string> InputFiles() {
  std::vector<std::string> paths;
  for (const std::string& entry : ValuesOfFlag("input")) paths.push_back(InputEntry(entry).path);
  return paths;
}

std::map<std::string, Shape> ShapesOfInputFiles() {
  std::vector<std::string> entries = ValuesOfFlag("input");
  if (!FLAGS_recording.empty() && !FLAGS_record) entries.push_back(FLAGS_recording);
  std::map<std::string, Shape> shapes;
  for (const std::string& text : entries) {
    const InputEntry entry(text);
    try {
      const std::vector<std::string> names = ArrayNames(entry.path);
      for (const std::string& name : names) {
        const bool named = !entry.name.empty() && names.size() > 1;
        if (named && name != entry.name) continue;
        Shape shape = ReadArrays(entry.path, std::span(&name, 1))[0].value.shape();
        if (IsGiven("batch") && shape.axes() > 0) {
          shape = shape.With(0, std::min<int64_t>(shape[0], BatchOfFlag()));
        }
        if (names.size() == 1) shapes[entry.name] = shape;
        if (entry.name.empty() || named) shapes[name] = shape;
      }
    } catch (const Error&) {
      continue;  // reported when the arrays are read
    }
  }
  return shapes;
}

std::vector<NamedOutput> InputsOfFlags(const Model& model) {
  InputSet inputs(model);
  for (const std::string& entry : ValuesOfFlag("input")) inputs.Add(InputEntry(entry));
  return inputs.Finish();
}

}  // namespace crema::tools
