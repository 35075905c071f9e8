#include "common/tool.h"

#include <gflags/gflags.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "common/command_line.h"
#include "common/flag_table.h"
#include "common/help.h"
#include "common/interrupt.h"
#include "common/manual.h"
#include "common/output_file.h"
#include "core/caught_error.h"
#include "core/error.h"
#include "core/exec_context.h"
#include "core/line_writer.h"
#include "core/strings.h"
#include "report/build_info.h"

DEFINE_bool(as_caffe, false, "");  // for tools/caffe.sh: help shows no flag without a description

namespace crema::tools {
namespace {

// Prints the help of the command, or of the action among its arguments.
void PrintHelp(int argc, char** argv, const char* usage) {
  const std::vector<FlagEntry> flags = FlagsOf(argv[0]);
  const CommandText command = ParseCommandText(argv[0], usage);
  const std::vector<std::string> actions = command.Actions();
  const auto* const action = std::find_first_of(argv + 1, argv + argc, actions.begin(),
                                                actions.end(), std::equal_to<std::string_view>());
  std::fputs(
      HelpOf(command, flags, action == argv + argc ? "" : *action, ColumnsOfStdout()).c_str(),
      stdout);
}

// One line per problem, for programs that read the log.
void ReportAsJson(const Error& error) {
  for (const Problem& problem : error.problems()) {
    std::vector<LogField> fields = {{"exit_code", int64_t{ExitCode(problem.code)}}};
    const Where& where = problem.where;
    for (const auto& [name, text] : {std::pair{"file", &where.file},
                                     {"layer", &where.layer},
                                     {"blob", &where.blob},
                                     {"field", &where.field}}) {
      if (!text->empty()) fields.emplace_back(name, *text);
    }
    if (where.line > 0) fields.emplace_back("line", int64_t{where.line});
    if (where.column > 0) fields.emplace_back("column", int64_t{where.column});
    LogEvent(Severity::kError, problem.message, fields);
  }
}

// --verbose logs the build, the command, its run time and peak memory.
int RunAndMeasure(const std::vector<std::string>& arguments,
                  const std::function<int(std::vector<std::string>)>& body) {
  if (!IsVerbose()) return body(arguments);
  const BuildInfo build = ThisBuild();
  LogEvent(
      Severity::kInfo,
      StrCat("crema ", build.version, " ", build.revision, " (", build.compiler, ", ", build.type,
             "), ", AvailableProcessors(), " processors: ", Join(google::GetArgvs(), " ")),
      {{"version", build.version}, {"revision", build.revision}});
  const auto start = std::chrono::steady_clock::now();
  const int code = body(arguments);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto megabytes = static_cast<int64_t>(usage.ru_maxrss / 1024);
  LogEvent(Severity::kInfo, StrCat("took ", seconds, " s and ", megabytes, " MiB at most"),
           {{"seconds", seconds}, {"peak_mib", megabytes}});
  return code;
}

Error StdoutError() {
  return Error({ErrorCode::kIoFailure,
                {},
                "standard output cannot be written: what was printed is not whole; is the disk "
                "full, or the output closed?"});
}

// Returns true if stdout is a pipe without a reader, as in `| head -1`.
bool StdoutHasNoReader() {
  pollfd out{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return ::poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
}

// A full disk is reported only on flush; a command whose output is lost has failed. A reader that
// has closed the pipe early causes no message, only the exit code of SIGPIPE.
int WithStdoutWritten(int code) {
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written) return code;
  const int failure = StdoutHasNoReader() ? 128 + SIGPIPE : ReportError(StdoutError());
  return code == 0 ? failure : code;
}

int RunReported(int argc, char** argv, const char* usage,
                const std::function<int(std::vector<std::string>)>& body) {
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string_view word = argv[i];
      if (word == "--help" || word == "-help" || word == "-h") {
        PrintHelp(argc, argv, usage);
        return 0;
      }
      if (word.starts_with("--help=")) {
        std::fputs(PartOfManuals(word.substr(7), ParseCommandText(argv[0], usage), FlagsOf(argv[0]),
                                 ThisBuild().version)
                       .c_str(),
                   stdout);
        return 0;
      }
      if (word == "--version") {
        std::printf("crema %s\n", ThisBuild().version.c_str());
        return 0;
      }
      if (word == "--") break;
    }
    LengthenFlags(argc, argv);
    RefuseWrongFlags(argc, argv);
    google::ParseCommandLineFlags(&argc, &argv, true);
    StartLog(argv[0]);
    const std::vector<std::string> arguments = TakePositional(argv[0], {argv + 1, argv + argc});
    CheckOutputFlags(FlagsOf(argv[0]), arguments);
    return RunAndMeasure(arguments, body);
  } catch (const Error& error) {
    return ReportError(error);
  } catch (...) {
    return ReportError(ErrorOf(std::current_exception()));
  }
}

// Caffe ends by SIGABRT whatever the error is; a shell sees 134.
int AsCaffe(int code) {
  const bool is_error = code > 0 && code <= ExitCode(ErrorCode::kDiverged);
  return IsAsCaffe() && is_error ? 128 + SIGABRT : code;
}

// Writes an error and ends the process. Allocates nothing.
[[noreturn]] void EndForMemory(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  ::_exit(ExitCode(ErrorCode::kOutOfMemory));
}

// Ends the process with a clear error if an exception that reports a lack of memory leaves a
// thread, a static initializer or a noexcept function. Allocates nothing.
[[noreturn]] void EndOnUncaught() {
  // An exception that leaves a noexcept function is not current yet, so its type is unknown. All of
  // ours are reported elsewhere; the library throws std::bad_alloc.
  std::string_view text =
      "error: out of memory, or a failure in a function that must not fail (a bug)\n";
  bool is_memory_out = !std::current_exception() && std::uncaught_exceptions() > 0;
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    text = "error: out of memory\n";
    is_memory_out = true;
  } catch (...) {
    // printed below
  }
  if (is_memory_out) EndForMemory(text);
  __gnu_cxx::__verbose_terminate_handler();
  std::abort();
}

// Without a check, a stack that is too small ends the process without a message. Commands work with
// 64 KiB.
void RequireStack() {
  constexpr rlim_t kLeast = rlim_t{64} << 10;
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kLeast) return;
  EndForMemory("error: the limit of the stack is below 64 KiB: raise it (ulimit -s)\n");
}

// Runs before the static initializers of this program: those of protobuf allocate.
[[gnu::constructor(101)]] void CheckAtStart() {
  std::set_terminate(EndOnUncaught);
  RequireStack();
}

}  // namespace

int ReportError(const Error& error) {
  std::fflush(stdout);
  FlushLog();  // leaves room for the error
  if (IsJsonLog()) {
    ReportAsJson(error);
  } else {
    WriteToStderr(StrCat(PrefixOf(Severity::kError), error.what(), "\n"));
  }
  return ExitCode(error.code());
}

bool IsAsCaffe() { return FLAGS_as_caffe; }

bool IsGiven(const char* flag) { return !gflags::GetCommandLineFlagInfoOrDie(flag).is_default; }

int CheckedThreads(int threads) {
  constexpr int kMost = 1024;
  if (threads < 0 || threads > kMost) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--threads is ", threads, "; use 1 to ", kMost, ", or 0 for one a processor"));
  }
  return threads > 0 ? threads : AvailableProcessors();
}

void RefusePositional(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("unexpected argument '", arguments[0], "'; flags are written --name=value"));
}

void RequireFlag(const std::string& value, const char* name) {
  if (value.empty()) {
    Fail(ErrorCode::kInvalidArgument, StrCat(Dashed(name), " is required; see --help"));
  }
}

void PrintLastLine(const std::string& line) {
  LineWriter out(STDOUT_FILENO);
  out.Write(line + "\n");
  out.Flush(LineWriter::kPatience);
  if (out.error() != 0 && out.error() != EPIPE) throw StdoutError();
}

int RunTool(int argc, char** argv, const char* usage,
            const std::function<int(std::vector<std::string>)>& body) {
  HandleSignalsAsPid1();
  // Writing beyond `ulimit -f` then fails like a full disk, instead of killing the command.
  std::signal(SIGXFSZ, SIG_IGN);
  // The reader of the log may exit; the work continues.
  std::signal(SIGPIPE, SIG_IGN);
  const int code = WithStdoutWritten(RunReported(argc, argv, usage, body));
  FlushLog();
  return AsCaffe(code);
}

}  // namespace crema::tools
