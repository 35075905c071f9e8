// Converts the nodes of an ONNX graph to layers.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "onnx/import_node.h"

namespace crema {

// Converts one node. Throws Error if it cannot.
using Converter = void (*)(NodeImport&);
using ConverterTable = std::map<std::string, Converter>;  // by operator

// Add the operators of one topic.
void AddMathConverters(ConverterTable* table);
void AddActivationConverters(ConverterTable* table);
void AddMatrixConverters(ConverterTable* table);
void AddConvolutionConverters(ConverterTable* table);
void AddPoolingConverters(ConverterTable* table);
void AddNormalizationConverters(ConverterTable* table);
void AddShapeConverters(ConverterTable* table);
void AddIndexConverters(ConverterTable* table);
void AddReductionConverters(ConverterTable* table);
void AddSamplingConverters(ConverterTable* table);
void AddRecurrentConverters(ConverterTable* table);
void AddAttentionConverters(ConverterTable* table);
void AddQuantizationConverters(ConverterTable* table);
void AddLossConverters(ConverterTable* table);
void AddSignalConverters(ConverterTable* table);
void AddStateConverters(ConverterTable* table);

// Result of converting all nodes.
struct ConvertedGraph {
  ImportState state;
  std::vector<Problem> problems;  // one for each node that cannot be converted
};

// Converts all nodes whose inputs are known. Constants are folded, branches of If with a constant
// condition are inlined: `graph` keeps the remaining nodes, under the names that they resolve to.
// Requires: `shapes` has every input of the graph.
ConvertedGraph ConvertNodes(const std::map<std::string, Shape>& shapes, const Registry& registry,
                            OnnxGraph* graph);

}  // namespace crema
