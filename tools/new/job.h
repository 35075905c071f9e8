// All that is decided about a job before its files are written.
#pragma once

#include <string>

#include "new/looks.h"
#include "new/pictures.h"
#include "new/zoo.h"

namespace crema::tools {

struct Job {
  std::string folder;  // with a slash at its end
  ZooModel model;
  PictureSet train;
  PictureSet test;
  Looks looks;          // of the training pictures
  std::string weights;  // to start from; empty: none
  int height = 0;       // of the net's input
  int width = 0;        //
  int batch = 0;        // of training
  int test_batch = 0;   //
  int epochs = 0;
  bool mirror = true;  // training pictures at random, if the model does or the task is segment

  PictureTask task() const { return model.task; }
  bool gray() const { return model.channels == 1; }
  // Number of outputs of the net: a detector's class 0 is the background.
  int outputs() const {
    return static_cast<int>(train.classes.size()) + (task() == PictureTask::kDetect ? 1 : 0);
  }
  std::string File(const std::string& name) const { return folder + name; }
};

}  // namespace crema::tools
