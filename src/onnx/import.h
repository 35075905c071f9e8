// Imports ONNX models: docs/onnx.md.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"
#include "inference/model.h"

namespace crema {

struct ImportOptions {
  // Shapes of inputs by name. Inputs that are missing have those of the file, with 1 for an unknown
  // first dimension.
  std::map<std::string, Shape> shapes = {};
  // Shapes of the arrays that the net is to run on, for inputs that `shapes` lacks; "" stands for
  // the only input. Those that do not fit the file are ignored.
  std::map<std::string, Shape> arrays = {};
  // "caffe" or "ssd": only layers and fields that Caffe 1.0 or its SSD fork read; empty: any layer
  // of Crema.
  std::string dialect = {};
  // Layers between QuantizeLinear and DequantizeLinear compute on bytes where they can; false: all
  // are computed on floats as the model says, which needs no precision INT8.
  bool int8 = true;
};

struct ImportedNet {
  NetParameter net;                // layers in order, with their parameters as blobs
  std::vector<std::string> notes;  // remarks for the user: what was dropped or loses precision
  ModelCard card;                  // task, labels and preprocessing of a file that Crema wrote
  // "int64", "bool", ... of the inputs and outputs that are no floats in the file.
  std::map<std::string, std::string> types;
};

// Converts the model in the file `path` to layers of Crema. Blobs have the names of the values,
// layers those of the nodes; both are made unique. Whole numbers and booleans become floats;
// constants that floats cannot hold are problems of the nodes that read them. Throws what
// ReadOnnxModel throws; kInvalidArgument for shapes that do not fit or an unknown dialect;
// kUnsupported with one problem for each node that cannot be converted, or cannot go to the
// dialect.
ImportedNet ImportOnnx(const std::string& path, const ImportOptions& options);

// Reads the file. Returns a function that makes the net of ImportOnnx for an only input of this
// shape, which is ignored if it does not fit the file. Both throw what ImportOnnx throws. The
// function does not read the file again, but for external data of loops and branches. Thread
// safety: any number of threads may call it.
std::function<NetFile(const Shape& input)> OpenOnnxNet(const std::string& path);

}  // namespace crema
