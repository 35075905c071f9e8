// Loads the interpreter into a command.
#include "layers/python/python_layers.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

std::atomic<PythonLayerMaker> g_maker{nullptr};  // NOLINT: Python sets it while it imports crema
std::atomic<bool> g_embedded{false};             // NOLINT

// Prints the library of the package crema, the interpreter and its shared library, a line each.
// The shell runs it: CREMA_PYTHON needs no quoting, and the script has no single quotes.
constexpr const char* kAsk = R"(exec "${CREMA_PYTHON:-python3}" -c '
import os, sys, sysconfig
if sys.version_info < (3, 10): sys.exit(f"this is Python {sys.version.split()[0]}")
import crema._core
get = lambda name: sysconfig.get_config_var(name) or ""
names = [name for name in (get("INSTSONAME"), get("LDLIBRARY")) if ".so" in name]
names += ["libpython%d.%d.so.1.0" % sys.version_info[:2]]
folders = [get("LIBDIR"), os.path.join(get("LIBDIR"), get("MULTIARCH")), sys.base_prefix + "/lib"]
paths = [os.path.join(folder, name) for folder in folders for name in names]
found = [path for path in paths if os.path.isfile(path)]
print("", crema._core.library_path(), sys.executable, (found + names)[0], sep="\n")
' 2>&1)";

// Runs in the interpreter after it started: crema registers itself, and prints of layers appear
// even if the command ends by a signal.
constexpr const char* kStart = R"(
import sys
if not getattr(sys.flags, "safe_path", False): sys.path.insert(0, "")
for stream in (sys.stdout, sys.stderr):
    if stream is not None: stream.reconfigure(line_buffering=True)
import crema._core
)";

struct Answer {
  int status = -1;
  std::vector<std::string> lines;
};

Answer AskPython() {
  Answer answer;
  std::FILE* const pipe = ::popen(kAsk, "re");
  if (pipe == nullptr) return answer;
  std::string text;
  std::array<char, 4096> part{};
  for (size_t n = 0; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    text.append(part.data(), n);
  }
  answer.status = ::pclose(pipe);
  while (text.ends_with('\n')) text.pop_back();
  answer.lines = Split(text, '\n');
  return answer;
}

[[noreturn]] void FailPython(const std::string& reason) {
  Fail(ErrorCode::kUnsupported, "a layer of type Python needs Python: " + reason);
}

std::string PythonName() {
  const char* const name = std::getenv("CREMA_PYTHON");
  return name == nullptr || *name == '\0' ? "python3" : name;
}

// A function of the loaded interpreter.
template <typename Function>
Function* Symbol(void* python, const char* name) {
  void* const address = ::dlsym(python, name);
  if (address == nullptr) FailPython(StrCat(PythonName(), " lacks the function ", name));
  return reinterpret_cast<Function*>(address);
}

// Functions that are also called at the end.
struct Functions {
  explicit Functions(void* python)
      : run(Symbol<int(const char*)>(python, "PyRun_SimpleString")),
        acquire(Symbol<int()>(python, "PyGILState_Ensure")),
        release(Symbol<void(int)>(python, "PyGILState_Release")) {}

  int (*run)(const char* code);
  int (*acquire)();  // the GIL
  void (*release)(int state);
};

void Start(void* python, const std::string& program) {
  static const Functions functions(python);
  auto* const decode = Symbol<wchar_t*(const char*, size_t*)>(python, "Py_DecodeLocale");
  // Deprecated, but it finds the standard library and a virtual environment in all versions.
  auto* const set_program = Symbol<void(const wchar_t*)>(python, "Py_SetProgramName");
  auto* const initialize = Symbol<void(int)>(python, "Py_InitializeEx");
  auto* const save_thread = Symbol<void*()>(python, "PyEval_SaveThread");
  set_program(decode(program.c_str(), nullptr));
  initialize(0);  // signals remain with the command
  g_embedded = true;
  const int failed = functions.run(kStart);
  save_thread();  // gives up the GIL
  if (failed != 0) FailPython(StrCat(program, " cannot import crema; it has printed the reason"));
  // Runs what Python programs have registered for their end, such as ending worker processes.
  // Python itself is not ended: threads and sessions may still have objects of it.
  std::atexit([] {
    const int state = functions.acquire();
    functions.run("import atexit; atexit._run_exitfuncs()");
    functions.release(state);
  });
}

void LoadPython() {
  const std::string library = LibraryPath();
  if (!std::filesystem::path(library).filename().string().starts_with("libcrema.so")) {
    FailPython(
        "this command was built without a shared library; use the commands of the Python package "
        "(docs/python.md), or build with -DCREMA_PYTHON=ON -DCREMA_SHARED=ON");
  }
  const Answer answer = AskPython();
  const std::vector<std::string>& lines = answer.lines;
  if (answer.status != 0 || lines.size() < 3) {
    FailPython(StrCat("'", PythonName(), "' does not run as Python 3.10 or later with the package ",
                      "crema (", lines.empty() ? "no output" : lines.back(),
                      "); install both (docs/python.md), "
                      "or name another Python in CREMA_PYTHON"));
  }
  const std::string* const last = &lines.back();
  if (last[-2] != library) {
    FailPython(StrCat("the package crema of ", last[-1], " has another library (", last[-2],
                      ") than this command (", library, "); use the commands of that package, or ",
                      "name another Python in CREMA_PYTHON"));
  }
  void* const python = ::dlopen(last->c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (python == nullptr) {
    const char* const reason = ::dlerror();
    FailPython(StrCat(last[-1], " has no shared library (", reason == nullptr ? "" : reason,
                      "); install it (apt install libpython3-dev, or configure Python with ",
                      "--enable-shared), or name another Python in CREMA_PYTHON"));
  }
  Start(python, last[-1]);
  if (g_maker == nullptr) FailPython("the package crema of " + last[-1] + " is of another version");
}

}  // namespace

void SetPythonLayerMaker(PythonLayerMaker maker) { g_maker = maker; }

bool IsPythonEmbedded() { return g_embedded; }

std::string LibraryPath() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&LibraryPath), &info) == 0) return "";
  std::error_code ignored;
  return std::filesystem::weakly_canonical(info.dli_fname, ignored).string();
}

std::unique_ptr<const Layer> MakePythonLayer(const LayerParameter& param) {
  if (g_maker == nullptr) {
    static const std::optional<Error> failure = []() -> std::optional<Error> {
      try {
        LoadPython();
        return std::nullopt;
      } catch (const Error& error) {
        return error;
      }
    }();
    if (failure) throw Error(*failure);
  }
  return g_maker.load()(param);
}

}  // namespace crema
