// Runs ONNX Runtime in a process of Python.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/run_program.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/tensor_files.h"
#include "onnx/export_check.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

// Arguments: the file, the inputs and the outputs. Exit code 3: a package is missing.
constexpr const char* kProgram = R"(
import sys
try:
    import numpy, onnxruntime
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
try:
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=['CPUExecutionProvider'])
    inputs = dict(numpy.load(sys.argv[2]))
    names = [output.name for output in session.get_outputs()]
    known = {value.name for value in session.get_inputs()}
    values = session.run(names, {k: v for k, v in inputs.items() if k in known})
except Exception as error:
    print(error, file=sys.stderr)
    sys.exit(4)
numpy.savez(sys.argv[3], **dict(zip(names, values)))
)";

// A folder that is removed with all that it holds.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "crema-onnx-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      Fail(ErrorCode::kIoFailure, StrCat("cannot make a temporary folder: ", std::strerror(errno)),
           {.file = name});
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::vector<NamedOutput> Run(const std::string& path, std::span<const NamedTensor> inputs,
                             const std::vector<std::string>&) {
  const TemporaryFolder folder;
  std::vector<NamedArrayView> arrays;
  for (const NamedTensor& input : inputs) arrays.push_back({std::string(input.name), input.value});
  WriteArrays(folder / "in.npz", arrays);
  const std::string errors = folder / "errors.txt";
  const int code =
      RunProgram({"python3", "-c", kProgram, path, folder / "in.npz", folder / "out.npz"}, errors);
  if (code == 127) {
    Fail(ErrorCode::kUnsupported, "--check=onnxruntime needs python3, which cannot be started");
  }
  if (code == 3) {
    Fail(ErrorCode::kUnsupported,
         StrCat("--check=onnxruntime needs the Python packages onnxruntime and numpy: ",
                Trim(ReadFile(errors)), "; install them, or leave --check out"));
  }
  if (code != 0) {
    Fail(ErrorCode::kDataLoss, StrCat("ONNX Runtime does not run the file: ",
                                      Trim(ReadFile(errors)), " (exit code ", code, ")"));
  }
  std::vector<NamedOutput> outputs;
  for (NamedArray& array : ReadArrays(folder / "out.npz")) {
    outputs.push_back({array.name, std::move(array.value)});
  }
  return outputs;
}

}  // namespace

OnnxRunner OnnxRuntimeRunner() { return Run; }

}  // namespace crema
