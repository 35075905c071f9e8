// Pictures in, answers out in the order of the pictures: batches, threads, drawings, numbers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "deploy/pictures.h"

namespace crema::tools {

// What a picture is answered with.
struct Answer {
  std::string text;                        // to print
  std::function<void(Image*)> draw = {};   // on the picture, blue, green and red; with --draw
  std::vector<std::vector<float>> rows{};  // for --npy
};

// Thread safety: one thread at a time.
class PictureWorker {
 public:
  virtual ~PictureWorker() = default;
  // One for each image, in order. `pictures` are those that the images were decoded from.
  virtual std::vector<Answer> Run(std::span<const Image> images,
                                  std::span<const InputPicture> pictures) = 0;
};

struct AnswerPlan {
  ColorMode mode = ColorMode::kColor;  // that the workers take
  // Called once for each thread (--threads), by that thread.
  std::function<std::unique_ptr<PictureWorker>()> make_worker;
  size_t columns = 0;  // of the rows of --npy; 0: there are none
  // A picture without pixels has a row of NaN, so that row i is picture i. Else it has none.
  bool row_a_picture = false;
};

// Answers the pictures that arguments and flags name: prints the answers, and the problems of
// pictures, which do not stop the rest. Returns the exit code: that of data errors when there was a
// problem. Throws Error where nothing can be answered.
int AnswerPictures(const std::vector<std::string>& arguments, const AnswerPlan& plan);

}  // namespace crema::tools
