#include "format/upgrade.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
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

// Reads "'feat_stride': 16 \n'scales': !!python/tuple [4, 8]". Nothing: it has other names.
std::optional<ProposalParameter> ReadProposal(std::string_view text) {
  constexpr std::string_view kBetween = " \t\r\n{}[](),:'\"";
  ProposalParameter proposal;
  std::string_view name;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size()));
    if (text.empty()) return proposal;
    const std::string_view word = text.substr(0, text.find_first_of(kBetween));
    text.remove_prefix(word.size());
    float value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    const bool is_number = error == std::errc() && end == word.data() + word.size();
    if (word == "feat_stride" || word == "scales") {
      name = word;
    } else if (is_number && name == "feat_stride" && value >= 1 && value < 1 << 20) {
      proposal.set_feat_stride(static_cast<uint32_t>(value));
    } else if (is_number && name == "scales") {
      proposal.add_scale(value);
    } else if (word != "!!python/tuple") {
      return std::nullopt;
    }
  }
}

std::optional<ProposalParameter> ProposalOf(const LayerParameter& layer) {
  const PythonParameter& python = layer.python_param();
  if (python.module() != "rpn.proposal_layer" || python.layer() != "ProposalLayer") return {};
  const auto trains = [](const NetStateRule& rule) { return rule.phase() == TRAIN; };
  if (layer.has_phase() && layer.phase() == TRAIN) return {};
  if (std::ranges::any_of(layer.include(), trains)) return {};
  return ReadProposal(python.param_str());
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

void UpgradeProposals(NetParameter* net, const SourceMap& source, std::vector<Problem>* warnings) {
  const auto stays = [](const LayerParameter& layer) {
    return layer.type() == "Python" && !ProposalOf(layer);
  };
  if (std::ranges::any_of(net->layer(), stays)) return;
  for (int i = 0; i < net->layer_size(); ++i) {
    LayerParameter& layer = *net->mutable_layer(i);
    if (layer.type() != "Python") continue;
    Where where = source.Locate(StrCat("layer[", i, "].type"));
    where.layer = layer.name();
    warnings->push_back({ErrorCode::kUnsupported, std::move(where),
                         "the Python layer rpn.proposal_layer runs as Proposal, with the values of "
                         "py-faster-rcnn in TEST: min_size 16, 6000 candidates, 300 regions, NMS "
                         "0.7; write a layer Proposal for others"});
    layer.set_type("Proposal");
    *layer.mutable_proposal_param() = *ProposalOf(layer);
    layer.clear_python_param();
  }
}

void UpgradeNet(NetParameter* net, SourceMap* source, std::vector<Problem>* warnings) {
  UpgradeV0(net, source, warnings);
  UpgradeDataTransforms(net, source);
  UpgradeV1(net, source);
  UpgradeInputs(net, source, warnings);
  UpgradeForkLayers(net, source, warnings);
  UpgradeBatchNorm(net);
  UpgradeProposals(net, *source, warnings);
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
