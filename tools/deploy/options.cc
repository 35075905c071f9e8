#include "deploy/options.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "common/tool.h"
#include "core/strings.h"
#include "format/file.h"

DEFINE_string(model, "", "the deploy net, a prototxt that begins with an Input layer");
DEFINE_string(weights, "",
              "its learned blobs: caffemodels, separated by commas; later ones add and override");
DEFINE_string(mean, "",
              "mean to subtract: a binaryproto file, or one number a channel with commas");
DEFINE_string(labels, "", "text file with the name of a class on each line");
DEFINE_double(scale, 1, "factor on (pixel - mean)");
DEFINE_bool(invert, false, "take 255 - pixel: dark on light becomes light on dark");
DEFINE_string(list, "", "text file with the path of an image on each line");
DEFINE_bool(json, false, "print a JSON object an image instead of text");
DEFINE_int32(threads, 0, "images worked on at a time; 0: one for each processor");

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

bool LooksLikeImage(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* known :
       {".png", ".jpg", ".jpeg", ".bmp", ".pgm", ".ppm", ".tif", ".tiff", ".webp"}) {
    if (extension == known) return true;
  }
  return false;
}

Answer AnswerOf(const Answerer& answerer, const std::string& image) {
  Answer answer;
  try {
    answer.text = answerer(ReadFile(image), image);
  } catch (const Error& error) {
    answer.problem = error.problems().front();
  } catch (const std::exception& error) {  // of the decoder
    answer.problem = Problem{ErrorCode::kDataLoss, {}, StrCat(image, ": ", error.what())};
  }
  return answer;
}

}  // namespace

std::vector<std::string> ImagesOf(const std::vector<std::string>& arguments) {
  std::vector<std::string> images;
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (!fs::is_directory(argument, error)) {
      images.push_back(argument);
      continue;
    }
    std::vector<std::string> inside;
    for (fs::directory_iterator entry(argument, error), end; !error && entry != end;
         entry.increment(error)) {
      if (LooksLikeImage(entry->path())) inside.push_back(entry->path().string());
    }
    if (error) Fail(ErrorCode::kIoFailure, StrCat(argument, ": ", error.message()));
    std::sort(inside.begin(), inside.end());
    images.insert(images.end(), inside.begin(), inside.end());
  }
  if (!FLAGS_list.empty()) {
    for (std::string& line : ReadLines(FLAGS_list)) images.push_back(std::move(line));
  }
  if (images.empty()) {
    Fail(ErrorCode::kInvalidArgument, "no images: name files or folders, or give --list");
  }
  return images;
}

std::vector<float> MeanNumbers(int channel_count) {
  if (FLAGS_mean.empty()) return {};
  std::vector<float> mean;
  for (const std::string& part : Split(FLAGS_mean, ',')) {
    char* end = nullptr;
    mean.push_back(std::strtof(part.c_str(), &end));
    if (part.empty() || *end != '\0' || !std::isfinite(mean.back())) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--mean: '", FLAGS_mean, "' is neither a file nor numbers with commas"));
    }
  }
  const auto channels = static_cast<size_t>(channel_count);
  if (mean.size() == 1) mean.resize(channels, mean[0]);
  if (mean.size() != channels) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--mean has ", mean.size(), " numbers for ", channels, " channels"));
  }
  return mean;
}

void CheckCommonFlags() {
  RequireFlag(FLAGS_model, "model");
  RequireFlag(FLAGS_weights, "weights");
  if (!std::isfinite(FLAGS_scale) || std::abs(FLAGS_scale) > 1e30) {
    Fail(ErrorCode::kInvalidArgument, StrCat("--scale is ", FLAGS_scale));
  }
}

// Each worker takes the next image.
std::vector<Answer> AnswerAll(const std::vector<std::string>& images,
                              const std::function<Answerer()>& make_answerer) {
  std::vector<Answer> answers(images.size());
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;  // of a worker as a whole
  const auto work = [&] {
    try {
      const Answerer answerer = make_answerer();
      for (size_t i = next++; i < images.size(); i = next++) {
        answers[i] = AnswerOf(answerer, images[i]);
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  const auto wanted = static_cast<size_t>(CheckedThreads(FLAGS_threads));
  {
    std::vector<std::jthread> threads;
    for (size_t t = 1; t < std::min(wanted, images.size()); ++t) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return answers;
}

int PrintAnswers(const std::vector<Answer>& answers) {
  int code = 0;
  for (const Answer& answer : answers) {
    if (answer.problem) {
      std::fflush(stdout);
      std::fprintf(stderr, "error: %s\n", ToString(*answer.problem).c_str());
      code = ExitCode(ErrorCode::kDataLoss);
    } else {
      std::printf("%s\n", answer.text.c_str());
    }
  }
  return code;
}

}  // namespace crema::tools
