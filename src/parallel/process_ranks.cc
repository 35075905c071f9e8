#include "parallel/process_ranks.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/byte_text.h"
#include "core/caught_error.h"
#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

// Shorter than a note. The first byte of an answer is another one.
constexpr std::string_view kSignOfLife = "l";
constexpr char kAnswer = 'a';
constexpr int kNoError = -1;

std::string Encode(double number, int code, std::string_view text) {
  std::string bytes;
  AppendValue(number, &bytes);
  AppendValue(code, &bytes);
  return bytes.append(text);
}

std::span<const std::byte> BytesOf(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string EncodeFailure(const Error& error) {
  std::string problems;
  for (const Problem& one : error.problems()) {
    for (const int number : {static_cast<int>(one.code), one.where.line, one.where.column}) {
      AppendValue(number, &problems);
    }
    for (const std::string& text :
         {one.message, one.where.file, one.where.layer, one.where.blob, one.where.field}) {
      AppendText(text, &problems);
    }
  }
  return Encode(0, static_cast<int>(error.code()), problems);
}

Error DecodeFailure(std::string_view text) {
  std::vector<Problem> problems;
  do {
    Problem& one = problems.emplace_back();
    one.code = static_cast<ErrorCode>(TakeValue<int>(&text));
    for (int* number : {&one.where.line, &one.where.column}) *number = TakeValue<int>(&text);
    for (std::string* part :
         {&one.message, &one.where.file, &one.where.layer, &one.where.blob, &one.where.field}) {
      *part = TakeText(&text);
    }
  } while (!text.empty());
  return Error(std::move(problems));
}

// An error whose text names the rank before the file.
class ErrorOfRanks final : public Error {
 public:
  ErrorOfRanks(std::vector<Problem> problems, std::string text)
      : Error(std::move(problems)), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

}  // namespace

std::unique_ptr<ProcessRanks> ProcessRanks::Make(Transport& transport,
                                                 const ProcessRanksOptions& options) {
  auto peers = std::make_unique<Peers>(transport, options.timeout);
  std::unique_ptr<ProcessRanks> ranks(new ProcessRanks(std::move(peers), options));
  std::vector<std::string> hosts;
  for (const Note& note : ranks->Exchange(ranks->rank(), {.text = ranks->peers_->OwnHost()})) {
    hosts.push_back(note.text);
  }
  ranks->peers_->set_hosts(std::move(hosts));
  return ranks;
}

ProcessRanks::ProcessRanks(std::unique_ptr<Peers> peers, const ProcessRanksOptions& options)
    : RankGroup(peers->size(), MakeProcessCollective(peers.get(), options)),
      peers_(std::move(peers)),
      messages_(static_cast<size_t>(size())),
      notes_(messages_.size()),
      last_sign_(std::chrono::steady_clock::now()) {}

// The collective outlives the peers, but must not use them any more.
ProcessRanks::~ProcessRanks() { collective().Abort(); }

void ProcessRanks::ThrowIfFailed() const {
  if (failure_.error) FailAsOtherRankFailed();
}

std::span<const RankGroup::Note> ProcessRanks::Exchange(int rank, Note note) {
  CREMA_CHECK(rank == this->rank());
  ThrowIfFailed();
  Share(Encode(note.number, kNoError, note.text));
  ThrowIfFailed();
  return notes_;
}

void ProcessRanks::Fail(int /*rank*/, const std::exception_ptr& error) noexcept {
  if (failure_.error) return;
  try {
    // After a sum that failed, messages no longer follow each other as expected.
    if (collective().HasFailed()) std::rethrow_exception(error);
    // Others may wait in a pass for this rank's part of a sum.
    std::vector<Peers::Pending> sent;
    for (int r = 0; r < size(); ++r) {
      if (r != this->rank()) peers_->Send({}, r, Peers::kInPass, &sent);
    }
    peers_->Await(&sent, false);
    Share(EncodeFailure(ErrorOf(error)));
  } catch (...) {
    FailAlone(error);
  }
}

void ProcessRanks::MeetAtEnd() {
  if (!out_of_step_) Share(Encode(0, kNoError, ""));
}

void ProcessRanks::Share(const std::string& own) {
  try {
    if (rank() == 0) {
      Gather(own);
    } else {
      Ask(own);
    }
    TakeNotes();
  } catch (...) {
    FailAlone(std::current_exception());
    throw;
  }
}

void ProcessRanks::TakeNotes() {
  std::vector<int> codes;
  for (size_t r = 0; r < messages_.size(); ++r) {
    std::string_view message = messages_[r];
    Read(static_cast<int>(r), [&] {
      notes_[r].number = TakeValue<double>(&message);
      codes.push_back(TakeValue<int>(&message));
    });
    notes_[r].text = message;
  }
  if (std::ranges::any_of(codes, [](int code) { return code != kNoError; })) TakeFailures(codes);
}

// Rank 0 receives the notes of all, and sends them to all.
void ProcessRanks::Gather(const std::string& own) {
  messages_[0] = own;
  std::vector<int> missing;
  for (int r = 1; r < size(); ++r) missing.push_back(r);
  Patience patience(peers_->timeout());
  for (;;) {
    std::erase_if(missing, [&](int r) {
      std::string& message = messages_[static_cast<size_t>(r)];
      if (!peers_->Take(r, Peers::kNotes, &message)) return false;
      if (message != kSignOfLife) return true;
      patience.Restart();
      return false;
    });
    if (missing.empty()) break;
    KeepAlive();  // so that the others leave the judgement to this rank
    if (!patience.Lasts()) peers_->FailAsSilent(missing);
  }
  std::string answer(1, kAnswer);
  for (const std::string& message : messages_) AppendText(message, &answer);
  std::vector<Peers::Pending> sent;
  for (int r = 1; r < size(); ++r) peers_->Send(BytesOf(answer), r, Peers::kAnswers, &sent);
  peers_->Await(&sent, false);
}

void ProcessRanks::Ask(const std::string& own) {
  std::vector<Peers::Pending> sent;
  peers_->Send(BytesOf(own), 0, Peers::kNotes, &sent);
  peers_->Await(&sent, false);
  Patience patience(peers_->timeout());
  std::string answer;
  for (;;) {
    if (!peers_->Take(0, Peers::kAnswers, &answer)) {
      if (!patience.Lasts()) peers_->FailAsSilent({0});
      continue;
    }
    if (answer[0] == kAnswer) break;
    patience.Restart();
  }
  std::string_view rest(answer);
  rest.remove_prefix(1);
  Read(0, [&] {
    for (std::string& message : messages_) message = TakeText(&rest);
  });
}

// Calls what reads a message. One of another program, or version, ends before its values.
void ProcessRanks::Read(int from, const std::function<void()>& read) const {
  try {
    read();
  } catch (const Error&) {
    crema::Fail(ErrorCode::kDeviceFailure,
                StrCat(peers_->NameOf(from), " sends no messages of this version of Crema"));
  }
}

void ProcessRanks::KeepAlive() {
  if (failure_.error) return;
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double> since = now - last_sign_;
  if (since.count() < peers_->timeout() / 10) return;
  last_sign_ = now;
  peers_->Poll(&signs_);
  if (rank() > 0) return peers_->Send(BytesOf(kSignOfLife), 0, Peers::kNotes, &signs_);
  for (int r = 1; r < size(); ++r) peers_->Send(BytesOf(kSignOfLife), r, Peers::kAnswers, &signs_);
}

// The same in all ranks. Equal messages are one problem: a wrong flag, a file that is missing.
void ProcessRanks::TakeFailures(const std::vector<int>& codes) {
  std::vector<std::pair<int, Error>> errors;
  constexpr int kCancelled = static_cast<int>(ErrorCode::kCancelled);
  const bool has_cause =
      std::ranges::any_of(codes, [](int code) { return code != kNoError && code != kCancelled; });
  const auto counts = [&](int code) {
    return code != kNoError && (code != kCancelled || !has_cause);
  };
  for (size_t r = 0; r < codes.size(); ++r) {
    if (!counts(codes[r])) continue;
    Read(static_cast<int>(r), [&] {
      Error error = DecodeFailure(notes_[r].text);
      const std::string_view text = error.what();
      const auto same = [&](const auto& other) { return other.second.what() == text; };
      if (std::ranges::none_of(errors, same)) errors.emplace_back(r, std::move(error));
    });
  }
  const bool all_fail = std::ranges::all_of(codes, counts);
  failure_.rank = errors[0].first;
  failure_.error = all_fail && errors.size() == 1 ? std::make_exception_ptr(errors[0].second)
                                                  : WithRanks(errors);
}

void ProcessRanks::FailAlone(const std::exception_ptr& error) {
  out_of_step_ = true;
  failure_ = {rank(), WithRanks({{rank(), ErrorOf(error)}})};
}

std::exception_ptr ProcessRanks::WithRanks(const std::vector<std::pair<int, Error>>& errors) const {
  std::vector<Problem> problems;
  std::vector<std::string> lines;
  for (const auto& [rank, error] : errors) {
    const std::string name = peers_->NameOf(rank) + ": ";
    lines.push_back(name + error.what());
    for (const Problem& one : error.problems()) {
      problems.push_back({one.code, one.where, name + one.message});
    }
  }
  return std::make_exception_ptr(ErrorOfRanks(std::move(problems), Join(lines, "\n")));
}

}  // namespace crema
