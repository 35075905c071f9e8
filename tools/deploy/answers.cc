#include "deploy/answers.h"

#include <gflags/gflags.h>

#include <cstdio>
#include <limits>
#include <mutex>
#include <utility>

#include "common/ordered_work.h"
#include "common/tool.h"
#include "core/strings.h"
#include "data/features/feature_writer.h"
#include "data/image/draw_boxes.h"
#include "deploy/drawings.h"
#include "deploy/options.h"
#include "format/file.h"

DEFINE_string(npy, "",
              "[Output FILE @classify @detect] file for numbers, .npy or .h5: classify: scores, a "
              "row an image (NaN if it cannot "
              "be read); detect: a row a box: image, class, score, left, top, right, bottom");

namespace crema::tools {
namespace {

struct Answered {
  InputPicture picture;
  Answer answer;
  Image drawn;  // the current frame
  std::optional<Problem> problem;
  double rate = 0;  // frames per second of the video
};

// Workers of all threads; keeps idle ones.
class WorkerPool {
 public:
  explicit WorkerPool(const AnswerPlan& plan) : plan_(plan) {}

  std::unique_ptr<PictureWorker> Take() {
    {
      const std::lock_guard lock(mutex_);
      if (!resting_.empty()) {
        std::unique_ptr<PictureWorker> worker = std::move(resting_.back());
        resting_.pop_back();
        return worker;
      }
    }
    return plan_.make_worker();
  }
  void Return(std::unique_ptr<PictureWorker> worker) {
    const std::lock_guard lock(mutex_);
    resting_.push_back(std::move(worker));
  }

 private:
  const AnswerPlan& plan_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PictureWorker>> resting_;
};

// Returns the problem if `body` throws. Its message names the picture, unless that is null.
template <typename Body>
std::optional<Problem> Try(const InputPicture* picture, Body&& body) {
  const auto problem = [&](ErrorCode code, const char* message) {
    return Problem{
        code, {}, picture == nullptr ? message : StrCat(picture->Title(), ": ", message)};
  };
  try {
    body();
    return std::nullopt;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) throw;
    return error.problems().front();
  } catch (const std::bad_alloc&) {
    return problem(ErrorCode::kOutOfMemory, "out of memory");
  } catch (const std::exception& error) {  // from the decoder
    return problem(ErrorCode::kDataLoss, error.what());
  }
}

// The pictures of a batch that have pixels.
struct Readable {
  std::vector<size_t> places;
  std::vector<Image> images;
  std::vector<InputPicture> pictures;
};

class Group {
 public:
  Group(const AnswerPlan& plan, const DrawingPaths& paths, std::vector<Answered> answers)
      : plan_(plan), paths_(paths), answers_(std::move(answers)) {}

  std::vector<Answered> AnswerBy(PictureWorker& worker) {
    Readable readable;
    readable.places.reserve(answers_.size());
    readable.images.reserve(answers_.size());
    for (size_t i = 0; i < answers_.size(); ++i) {
      InputPicture& picture = answers_[i].picture;
      answers_[i].problem = Try(&picture, [&] {
        readable.images.push_back(PixelsOf(plan_.mode, &picture));
        readable.places.push_back(i);
      });
    }
    for (const size_t i : readable.places) readable.pictures.push_back(answers_[i].picture);
    Run(worker, readable, 0, readable.images.size());
    for (Answered& answered : answers_) {
      if (answered.problem || !paths_.wanted()) continue;
      answered.problem = Try(&answered.picture, [&] { Draw(&answered); });
    }
    return std::move(answers_);
  }

 private:
  // Runs images [begin, end) as a batch; if that fails, each alone, so that one bad image does not
  // fail all.
  void Run(PictureWorker& worker, const Readable& readable, size_t begin, size_t end) {
    if (begin == end) return;
    std::vector<Answer> got;
    const std::optional<Problem> problem = Try(nullptr, [&] {
      got = worker.Run(std::span(readable.images).subspan(begin, end - begin),
                       std::span(readable.pictures).subspan(begin, end - begin));
    });
    if (problem && end - begin > 1) {
      for (size_t i = begin; i < end; ++i) Run(worker, readable, i, i + 1);
      return;
    }
    for (size_t i = begin; i < end; ++i) {
      Answered& answered = answers_[readable.places[i]];
      if (problem) {
        answered.problem = problem;
        answered.problem->message = StrCat(answered.picture.Title(), ": ", problem->message);
      } else {
        answered.answer = std::move(got[i - begin]);
      }
    }
  }

  void Draw(Answered* answered) const {
    if (!answered->answer.draw) return;
    Image picture = PixelsOf(ColorMode::kColor, &answered->picture);
    answered->answer.draw(&picture);
    if (answered->picture.is_frame()) {
      answered->drawn = std::move(picture);
      return;
    }
    const std::string& path = paths_.PathOf(answered->picture);
    WriteFileAtomically(path, EncodePicture(picture, path));
  }

  const AnswerPlan& plan_;
  const DrawingPaths& paths_;
  std::vector<Answered> answers_;
};

// Prints and writes answers in order.
class AnswerWriter {
 public:
  AnswerWriter(const AnswerPlan& plan, const DrawingPaths& paths) : plan_(plan), paths_(paths) {
    if (FLAGS_npy.empty()) return;
    rows_ = NewFeatureWriter(FLAGS_npy, "rows");
  }

  void Write(const std::vector<Answered>& answers) {
    for (const Answered& answered : answers) Write(answered);
    std::fflush(stdout);
  }

  int Finish() {
    if (rows_) rows_->Close();
    return code_;
  }

 private:
  void Write(const Answered& answered) {
    if (answered.problem) {
      std::fflush(stdout);
      WriteToStderr(StrCat("error: ", ToString(*answered.problem), "\n"));
      code_ = ExitCode(ErrorCode::kDataLoss);
    } else {
      std::printf("%s\n", answered.answer.text.c_str());
      if (answered.drawn.height > 0) {
        videos_.Add(paths_.PathOf(answered.picture), answered.picture, answered.drawn,
                    answered.rate);
      }
    }
    if (rows_) WriteRows(answered);
  }

  void WriteRows(const Answered& answered) {
    std::vector<float> values;
    for (const std::vector<float>& row : answered.answer.rows) {
      values.insert(values.end(), row.begin(), row.end());
    }
    if (values.empty() && plan_.row_a_picture) {
      values.assign(plan_.columns, std::numeric_limits<float>::quiet_NaN());
    }
    const auto columns = static_cast<int64_t>(plan_.columns);
    rows_->Append(ConstTensorView(
        values.data(), {static_cast<int64_t>(values.size()) / columns, columns}, DType::kF32));
  }

  const AnswerPlan& plan_;
  const DrawingPaths& paths_;
  std::unique_ptr<FeatureWriter> rows_;
  DrawnVideos videos_;
  int code_ = 0;
};

}  // namespace

int AnswerPictures(const std::vector<std::string>& arguments, const AnswerPlan& plan) {
  const std::vector<PictureSource> sources = PictureSources(arguments);
  const DrawingPaths paths(sources);
  const bool one_image = sources.size() == 1 && sources[0].kind == PictureSource::Kind::kImage;
  const int threads = std::min(ThreadsOfFlag(), one_image ? 1 : 1024);
  const auto most = static_cast<size_t>(BatchOfFlag());
  PictureReader reader(sources);
  WorkerPool workers(plan);
  AnswerWriter writer(plan, paths);
  using Batch = std::vector<Answered>;
  RunInOrder(
      threads,
      [&]() -> std::optional<Batch> {
        Batch batch;
        while (batch.size() < most) {
          std::optional<InputPicture> picture = reader.Next();
          if (!picture) break;
          batch.push_back({.picture = std::move(*picture),
                           .answer = {},
                           .drawn = {},
                           .problem = {},
                           .rate = reader.FramesPerSecond()});
        }
        if (batch.empty()) return std::nullopt;
        return batch;
      },
      [&](Batch batch) {
        std::unique_ptr<PictureWorker> worker = workers.Take();
        Batch answers = Group(plan, paths, std::move(batch)).AnswerBy(*worker);
        workers.Return(std::move(worker));
        return answers;
      },
      [&](const Batch& answers) { writer.Write(answers); });
  return writer.Finish();
}

}  // namespace crema::tools
