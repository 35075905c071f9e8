// Runs pictures through workers in batches and threads; prints, draws and stores the answers in the
// order of the pictures.
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

// The answer to a picture.
struct Answer {
  std::string text;                        // to be printed
  std::function<void(Image*)> draw = {};   // draws on the BGR picture, for --draw
  std::vector<std::vector<float>> rows{};  // for --npy
};

// Thread safety: one thread at a time.
class PictureWorker {
 public:
  virtual ~PictureWorker() = default;
  // Returns one answer per image, in order. `pictures` are the sources of the images.
  virtual std::vector<Answer> Run(std::span<const Image> images,
                                  std::span<const InputPicture> pictures) = 0;
};

struct AnswerPlan {
  ColorMode mode = ColorMode::kColor;  // of the workers' input
  // Called once per thread (--threads), on that thread.
  std::function<std::unique_ptr<PictureWorker>()> make_worker;
  size_t columns = 0;  // of the rows of --npy; 0: none
  // True: a picture without pixels has a row of NaN, so that row i is picture i. False: it has
  // none.
  bool row_a_picture = false;
};

// Answers the pictures named by arguments and flags. Prints the answers, and problems of single
// pictures, which do not stop the rest. Returns the exit code: that of data errors if there was a
// problem. Throws Error if nothing can be answered.
int AnswerPictures(const std::vector<std::string>& arguments, const AnswerPlan& plan);

}  // namespace crema::tools
