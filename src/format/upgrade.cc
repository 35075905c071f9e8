#include "format/upgrade.h"

#include <utility>

#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

// Checks that there is a shape or size for each input; the message gives the remedy.
void CheckInputSizes(const NetParameter& net, const SourceMap& source,
                     std::vector<Problem>* warnings) {
  const int inputs = net.input_size();
  const bool by_shape = net.input_shape_size() > 0;
  const int given = by_shape ? net.input_shape_size() : net.input_dim_size();
  const int needed = by_shape ? inputs : 4 * inputs;
  if (given == needed || given == 0) return;
  const char* field = by_shape ? "input_shape" : "input_dim";
  std::string message =
      StrCat("the net has ", inputs, " input", inputs == 1 ? "" : "s", " and ", given, " '", field,
             "' instead of ", needed, by_shape ? ": give one for each" : ": give four for each");
  if (given < needed) Fail(ErrorCode::kInvalidArgument, message, source.Locate(field));
  warnings->push_back(
      {ErrorCode::kInvalidArgument, source.Locate(field), message + "; the surplus has no effect"});
}

}  // namespace

void UpgradeInputs(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings) {
  if (net->input_size() == 0) return;
  CheckInputSizes(*net, *source, warnings);
  const bool by_shape = net->input_shape_size() > 0;
  const bool by_dim = !by_shape && net->input_dim_size() > 0;
  if (by_shape || by_dim) {
    LayerParameter input;
    input.set_name("input");
    input.set_type("Input");
    source->ShiftUp("layer");
    source->Move("input[0]", "layer[0]");
    for (int i = 0; i < net->input_size(); ++i) {
      input.add_top(net->input(i));
      BlobShape* shape = input.mutable_input_param()->add_shape();
      const std::string shape_path = StrCat("layer[0].input_param.shape[", i, "]");
      if (by_shape) {
        *shape = net->input_shape(i);
        source->Move(StrCat("input_shape[", i, "]"), shape_path);
      }
      for (int axis = 0; by_dim && axis < 4; ++axis) {
        shape->add_dim(net->input_dim(4 * i + axis));
        source->Move(StrCat("input_dim[", 4 * i + axis, "]"),
                     StrCat(shape_path, ".dim[", axis, "]"));
      }
      if (i > 0) source->Move(StrCat("input[", i, "]"), StrCat("layer[0].top[", i, "]"));
    }
    // Repeated fields can only grow at the end: append, then move to the front.
    *net->add_layer() = std::move(input);
    for (int i = net->layer_size() - 1; i > 0; --i) net->mutable_layer()->SwapElements(i, i - 1);
  }
  net->clear_input();
  net->clear_input_shape();
  net->clear_input_dim();
}

void UpgradeBatchNorm(NetParameter* net) {
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (layer.type() != "BatchNorm" || layer.param_size() != 3) continue;
    for (ParamSpec& param : *layer.mutable_param()) {
      param.set_lr_mult(0);
      param.set_decay_mult(0);
    }
  }
}

void UpgradeNet(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings) {
  UpgradeV0(net, source, warnings);
  UpgradeDataTransforms(net, source);
  UpgradeV1(net, source);
  UpgradeInputs(net, source, warnings);
  UpgradeForkLayers(net, source, warnings);
  UpgradeBatchNorm(net);
}

void UpgradeSolver(SolverParameter* solver, SourceMap* source) {
  if (!solver->has_solver_type()) return;
  if (solver->has_type()) {
    Where where = source->Locate("solver_type");
    where.field = "solver_type";
    Fail(ErrorCode::kInvalidArgument,
         "'solver_type' and 'type' are both set; remove the old 'solver_type'", where);
  }
  constexpr std::pair<SolverParameter::SolverType, const char*> kTypes[] = {
      {SolverParameter::SGD, "SGD"},           {SolverParameter::NESTEROV, "Nesterov"},
      {SolverParameter::ADAGRAD, "AdaGrad"},   {SolverParameter::RMSPROP, "RMSProp"},
      {SolverParameter::ADADELTA, "AdaDelta"}, {SolverParameter::ADAM, "Adam"},
      {SolverParameter::SAG, "SAG"},
  };
  for (const auto& [old_type, type] : kTypes) {
    if (old_type == solver->solver_type()) solver->set_type(type);
  }
  solver->clear_solver_type();
  source->Move("solver_type", "type");
}

}  // namespace crema
