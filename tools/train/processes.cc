#include "train/processes.h"

#include <gflags/gflags.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "common/log.h"
#include "common/tool.h"
#include "core/error.h"
#include "core/exec_context.h"
#include "core/strings.h"
#include "format/seal.h"
#include "parallel/transport.h"
#include "report/clock.h"
#include "solvers/parallel_run.h"
#include "train/signals.h"

DECLARE_int32(threads);
DECLARE_string(log_dir);

DEFINE_string(transport, "auto",
              "[Run auto|openmpi|mpich|tcp|none] how the processes of a run meet; auto: by the MPI "
              "of mpirun or srun, or by TCP if WORLD_SIZE is set; none: each trains for itself");
DEFINE_string(mpi, "", "");  // the former name of --transport
DEFINE_double(
    rank_timeout, 300,
    "[Run SECONDS] seconds after which a process that does not answer ends the run of all");
DEFINE_string(wire, "f32",
              "[Run f32|bf16] how processes send gradients and their sums; bf16 halves the traffic "
              "and rounds to 8 bits");
DEFINE_double(bucket_mb, 4,
              "[Expert MB] MB of gradients that processes sum at a time, during the backward pass; "
              "the first and the last time about a quarter of it");

namespace crema::tools {
namespace {

constexpr char kBetween = '\0';  // the parts of a message

// Returns the processors that this process may run on: '1' for each of them, '0' for others.
std::string OwnProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return "";
  std::string text;
  for (int i = 0; i < CPU_SETSIZE; ++i) text += CPU_ISSET(i, &set) ? '1' : '0';
  text.erase(text.find_last_of('1') + 1);
  return text;
}

// Returns the kind of transport; empty: none.
std::string KindOfTransport() {
  const std::vector<std::string> kinds = {"auto", "openmpi", "mpich", "tcp", "none"};
  const std::string& kind = FLAGS_mpi.empty() ? FLAGS_transport : FLAGS_mpi;
  if (std::ranges::find(kinds, kind) == kinds.end()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--transport: '", kind, "' is not one of ",
                                             Join(kinds, ", "), DidYouMean(kind, kinds)));
  }
  if (kind == "none") return "";
  return kind == "auto" ? TransportOfLauncher() : kind;
}

ProcessRanksOptions OptionsOfFlags() {
  constexpr double kMostBucket = 1024, kMostSeconds = 1e6;
  if (!(FLAGS_rank_timeout > 0 && FLAGS_rank_timeout <= kMostSeconds)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--rank_timeout is ", FLAGS_rank_timeout, "; give seconds above 0, up to ",
                static_cast<int64_t>(kMostSeconds)));
  }
  if (!(FLAGS_bucket_mb > 0 && FLAGS_bucket_mb <= kMostBucket)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--bucket_mb is ", FLAGS_bucket_mb, "; give MB above 0, up to ", kMostBucket));
  }
  if (FLAGS_wire != "f32" && FLAGS_wire != "bf16") {
    Fail(ErrorCode::kInvalidArgument, StrCat("--wire: '", FLAGS_wire, "' is not f32 or bf16"));
  }
  return {.timeout = FLAGS_rank_timeout,
          .wire = FLAGS_wire == "bf16" ? DType::kBF16 : DType::kF32,
          .bucket_bytes = static_cast<size_t>(FLAGS_bucket_mb * (1 << 20))};
}

// Launchers that end a run lose what they have not read of its output.
void LetLauncherRead() {
  FlushLog();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

// Ends the process if a call that waits for all processes does not return: nothing else can.
template <typename Call>
void WithinTimeout(const char* what, const Call& call) {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::thread watch([&] {
    std::unique_lock lock(mutex);
    const std::chrono::duration<double> timeout(FLAGS_rank_timeout);
    if (changed.wait_for(lock, timeout, [&] { return done; })) return;
    WriteToStderr(StrCat(PrefixOf(Severity::kError), what, " within ", FLAGS_rank_timeout,
                         " seconds: a process hangs, or the network between them is down; "
                         "--rank_timeout sets the time\n"));
    LetLauncherRead();
    ::_exit(ExitCode(ErrorCode::kDeviceFailure));
  });
  const auto end = [&] {
    {
      const std::lock_guard lock(mutex);
      done = true;
    }
    changed.notify_all();
    watch.join();
  };
  try {
    call();
  } catch (...) {
    end();
    throw;
  }
  end();
}

// Returns a checksum of the texts of solver and net, of the flags on which messages depend, and of
// the sizes of data sets. `config` is as read: a solver changes its own.
double ChecksumOf(const RunConfig& config, Solver& solver) {
  std::string all = config.solver.solver.SerializeAsString() +
                    config.train.file.net.SerializeAsString() + StrCat(FLAGS_bucket_mb, FLAGS_wire);
  const auto add_sizes = [&](const Session& session) {
    for (size_t i = 0; i < session.plan().layers.size(); ++i) {
      if (session.state(i) != nullptr) all += StrCat(" ", session.state(i)->EpochSize());
    }
  };
  add_sizes(solver.session());
  const bool divides_tests = !(config.solver.solver.ema_decay() > 0);
  for (size_t i = 0; divides_tests && i < solver.test_count(); ++i) {
    add_sizes(solver.test_session(i));
  }
  return Crc32(all);
}

// Returns how a plan computes the layers that sum over the ranks.
std::string SyncedLayers(const Plan& plan) {
  std::string all;
  for (const PlannedLayer& layer : plan.layers) {
    if (!SumsOverRanks(layer.layer->param())) continue;
    all += StrCat(layer.name(), ": ", layer.implementation->name);
    for (const Layer* fused : layer.fusion.layers) all += StrCat(" + ", fused->param().name());
    all += "; ";
  }
  return all;
}

// Returns the log of a rank above 0, or that of all of them for "N"; empty: none.
std::string LogPath(const std::string& prefix, const std::string& rank) {
  if (!FLAGS_log_dir.empty()) return StrCat(FLAGS_log_dir, "/train.rank", rank, ".log");
  return prefix.empty() ? "" : StrCat(prefix, ".rank", rank, ".log");
}

}  // namespace

// The log of a rank above 0: all messages in its file. Warnings also reach the terminal once
// training starts; before, rank 0 shows the same.
class TrainProcesses::FollowerLog final : public LogSink {
 public:
  // Throws kIoFailure if the file cannot be created.
  FollowerLog(const std::string& path, std::string name) : name_(std::move(name)) {
    if (path.empty()) return;
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::error_code ignored;
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
    file_ = std::fopen(path.c_str(), "ae");
    if (file_ != nullptr) return;
    Fail(ErrorCode::kIoFailure, StrCat("the log of this rank, '", path, "', cannot be written: ",
                                       std::generic_category().message(errno)));
  }
  ~FollowerLog() override {
    if (file_ != nullptr) std::fclose(file_);
  }
  FollowerLog(const FollowerLog&) = delete;
  FollowerLog& operator=(const FollowerLog&) = delete;

  void Open() { open_ = true; }
  void Write(Severity severity, std::string_view message) override {
    if (file_ != nullptr) {
      std::fputs(TextLogLines(UnixTime(), severity, message).c_str(), file_);
      std::fflush(file_);
    }
    if (open_ && severity != Severity::kInfo) {
      ToolLog().Write(severity, StrCat(name_, ": ", message));
    }
  }

 private:
  const std::string name_;
  std::FILE* file_ = nullptr;
  std::atomic<bool> open_ = false;
};

std::unique_ptr<TrainProcesses> TrainProcesses::Meet() {
  const ProcessRanksOptions options = OptionsOfFlags();
  const std::string kind = KindOfTransport();
  const int started = ProcessesOfLauncher();
  if (kind.empty()) {
    if (started > 1 && FLAGS_transport != "none" && FLAGS_mpi != "none") {
      ToolLog().Write(Severity::kWarning,
                      StrCat("srun started ", started,
                             " processes without MPI: each trains for itself and writes the same "
                             "snapshots; start them with srun --mpi=pmix or with mpirun"));
    }
    return nullptr;
  }
  std::shared_ptr<Transport> transport;
  const auto start = [&] {
    transport = StartTransport(kind, options.timeout, [](const std::string& text) {
      ToolLog().Write(Severity::kWarning, text);
    });
  };
  if (kind == "tcp") {
    start();  // waits for the timeout itself
  } else {
    WithinTimeout("MPI does not start", start);
  }
  if (transport->size() < 2) {
    transport->End();
    if (started < 2) return nullptr;
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the launcher started ", started, " processes, but ", kind,
                " joins none of them: their launcher is of another MPI. Choose that by "
                "--transport, or give --transport=none, with which each process trains for "
                "itself"));
  }
  auto ranks = ProcessRanks::Make(*transport, options);
  std::unique_ptr<TrainProcesses> run(new TrainProcesses(std::move(transport), std::move(ranks)));
  run->ShareProcessors();
  return run;
}

TrainProcesses::TrainProcesses(std::shared_ptr<Transport> transport,
                               std::unique_ptr<ProcessRanks> ranks)
    : transport_(std::move(transport)), ranks_(std::move(ranks)) {}

TrainProcesses::~TrainProcesses() = default;

// Ranks that may run on the same processors of a host divide them. A launcher that binds its
// processes has divided them already.
void TrainProcesses::ShareProcessors() {
  const RankGroup::Note own = {.number = static_cast<double>(AvailableProcessors()),
                               .text = OwnProcessors()};
  std::vector<int> processors;
  for (const RankGroup::Note& note : ranks_->Exchange(ranks_->rank(), own)) {
    places_.push_back({ranks_->peers().hosts()[places_.size()], note.text});
    processors.push_back(static_cast<int>(note.number));
  }
  for (size_t r = 0; r < places_.size(); ++r) {
    int before = 0;
    int together = 0;
    for (size_t other = 0; other < places_.size(); ++other) {
      if (places_[other].host != places_[r].host) continue;
      if (places_[other].processors != places_[r].processors) continue;
      ++together;
      before += other < r ? 1 : 0;
    }
    const int all = processors[r];
    places_[r].threads = std::max(1, all * (before + 1) / together - all * before / together);
  }
}

std::string TrainProcesses::Describe() const {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < places_.size();) {
    const Place& place = places_[begin];
    size_t end = begin + 1;
    while (end < places_.size() && places_[end].host == place.host &&
           places_[end].threads == place.threads) {
      ++end;
    }
    const std::string ranks =
        end - begin == 1 ? StrCat("rank ", begin) : StrCat("ranks ", begin, " to ", end - 1);
    const int threads = FLAGS_threads > 0 ? FLAGS_threads : place.threads;
    parts.push_back(StrCat(ranks, " on ", place.host, " with ", threads,
                           threads == 1 ? " thread" : " threads", end - begin == 1 ? "" : " each"));
    begin = end;
  }
  return Join(parts, ", ");
}

std::vector<FieldSetting> TrainProcesses::Share(
    const std::function<std::vector<FieldSetting>()>& settings) {
  RankGroup::Note note;
  if (is_first()) {
    for (const FieldSetting& one : settings()) {
      note.text += StrCat(one.path, kBetween, one.value, kBetween, one.origin, kBetween);
    }
  }
  const std::vector<std::string> parts =
      Split(ranks_->Lead(ranks_->rank(), std::move(note)).text, kBetween);
  std::vector<FieldSetting> shared;
  for (size_t i = 0; i + 2 < parts.size(); i += 3) {
    shared.push_back({.path = parts[i], .value = parts[i + 1], .origin = parts[i + 2]});
  }
  return shared;
}

void TrainProcesses::Complete(SolverOptions* options) const {
  options->ranks = ranks_.get();
  options->rank = ranks_->rank();
  if (FLAGS_threads == 0) {
    options->threads = places_[static_cast<size_t>(ranks_->rank())].threads;
  }
}

// Files that differ between hosts would otherwise end in gradients of other layers, or in ranks
// that wait for each other.
void TrainProcesses::CheckSame(const RunConfig& config, Solver& solver) {
  const RankGroup::Note own = {.number = ChecksumOf(config, solver),
                               .text = SyncedLayers(solver.plan())};
  const auto notes = ranks_->Exchange(ranks_->rank(), own);
  for (size_t r = 0; r < notes.size(); ++r) {
    const std::string name = ranks_->peers().NameOf(static_cast<int>(r));
    if (notes[r].number != notes[0].number) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat(name,
                  " has another solver, net, --wire or --bucket_mb than rank 0, or a data set of "
                  "another size: give all ranks the same files and flags"));
    }
    if (notes[r].text != notes[0].text) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat(name, " computes layers with sync: true by other implementations than rank 0 (",
                  notes[r].text, "there, ", notes[0].text,
                  "here), and their sums would not fit: give all ranks the same --threads and "
                  "processors, without --autotune"));
    }
  }
}

void TrainProcesses::StartOthers(const RunConfig& config, Solver* first, const std::string& state,
                                 LogSink& log) {
  RefuseLayersOfRanks(first->plan());
  log.Write(Severity::kInfo,
            StrCat("training in ", size(), " processes, ", Describe(), ": an iteration has ",
                   size(), " times the samples that the net's batch size says"));
  const std::string path = LogPath(first->config().solver.solver.snapshot_prefix(), "N");
  if (!path.empty()) log.Write(Severity::kInfo, StrCat("rank N logs to ", path));
  log.Write(Severity::kInfo,
            StrCat("to stop with a snapshot: kill -TERM ", ::getpid(), " on ", places_[0].host));
  ranks_->Exchange(0, {.text = StrCat(first->seed(), kBetween, state)});
  CheckSame(config, *first);
}

void TrainProcesses::Follow(const RunConfig& config, const Registry& registry,
                            SolverOptions options) {
  const int rank = ranks_->rank();
  log_ = std::make_unique<FollowerLog>(
      LogPath(config.solver.solver.snapshot_prefix(), StrCat(rank)), ranks_->peers().NameOf(rank));
  const std::vector<std::string> lead = Split(ranks_->Lead(rank, {}).text, kBetween);
  CREMA_CHECK(lead.size() == 2);
  options.log = log_.get();
  options.poll = WatchSignals();
  options.seed = std::strtoull(lead[0].c_str(), nullptr, 10);
  Solver solver(ConfigOfFollower(config, true), registry, std::move(options));
  if (!lead[1].empty()) solver.Restore(lead[1]);
  CheckSame(config, solver);
  log_->Open();
  log_->Write(Severity::kInfo, StrCat(ranks_->peers().NameOf(rank), " trains"));
  CatchSignals();
  Solve(&solver);
  log_->Write(Severity::kInfo, StrCat("trained to iteration ", solver.iteration()));
}

void TrainProcesses::Solve(Solver* solver) {
  try {
    solver->Solve();
  } catch (...) {
    ranks_->Fail(ranks_->rank(), std::current_exception());
    if (ranks_->collective().IsIdle()) throw;
    // Sums that will never end write to memory of the solver, which must stay.
    const int code = Report();
    if (!ranks_->out_of_step()) MeetAtEnd(code);
    AbortAll(code);
  }
}

// Waits until rank 0 has reported the failure: launchers end all if one process ends with a code.
void TrainProcesses::MeetAtEnd(int code) {
  try {
    ranks_->MeetAtEnd();
  } catch (const Error&) {
    AbortAll(code);
  }
}

int TrainProcesses::Run(const std::function<int()>& body) {
  int code = 0;
  try {
    code = body();
    ranks_->Exchange(ranks_->rank(), {});
  } catch (...) {
    ranks_->Fail(ranks_->rank(), std::current_exception());
  }
  if (ranks_->failure().error) {
    code = Report();
    if (ranks_->out_of_step()) AbortAll(code);
    MeetAtEnd(code);
  }
  try {
    WithinTimeout("the run does not end", [&] { transport_->End(); });
  } catch (const std::exception&) {
    if (code == 0) throw;  // otherwise another rank has ended the run for the same failure
  }
  return code;
}

// Returns the exit code of the failure of the run.
int TrainProcesses::Report() const {
  try {
    std::rethrow_exception(ranks_->failure().error);
  } catch (const Error& error) {
    if (log_) log_->Write(Severity::kInfo, StrCat("error: ", error.what()));
    std::fflush(stdout);
    FlushLog();
    // Ranks that are out of step do not know what the others report.
    if (!is_first() && !ranks_->out_of_step()) return ExitCode(error.code());
    const int code = ReportError(error);
    FlushLog();
    return code;
  }
}

void TrainProcesses::AbortAll(int code) const {
  LetLauncherRead();
  // MPI itself may wait for the network that is down.
  std::thread([code] {
    std::this_thread::sleep_for(std::chrono::seconds(10));
    ::_exit(code);
  }).detach();
  transport_->Abort(code);
  ::_exit(code);
}

}  // namespace crema::tools
