// Runs ONNX Runtime in a process of Python.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/tensor_files.h"
#include "onnx/export_check.h"

extern char** environ;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

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

// Returns the exit code; standard error goes to a file.
int RunPython(const std::vector<std::string>& arguments, const std::string& errors) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    Fail(ErrorCode::kUnsupported, StrCat("--check=onnxruntime needs ", argv[0],
                                         ", which cannot be started: ", std::strerror(error)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<NamedOutput> Run(const std::string& path, std::span<const NamedTensor> inputs,
                             const std::vector<std::string>&) {
  const TemporaryFolder folder;
  std::vector<NamedArrayView> arrays;
  for (const NamedTensor& input : inputs) arrays.push_back({std::string(input.name), input.value});
  WriteArrays(folder / "in.npz", arrays);
  const std::string errors = folder / "errors.txt";
  const int code =
      RunPython({"python3", "-c", kProgram, path, folder / "in.npz", folder / "out.npz"}, errors);
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
