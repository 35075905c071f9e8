// Checks that Caffe 1.0 can read Crema's files, by parsing them with a schema cut down to Caffe's.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <set>

#include "crema.pb.h"
#include "format/caffemodel.h"
#include "format/stock_caffe.h"
#include "runtime/weights.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

void CutEnum(const EnumDescriptor& described, EnumDescriptorProto* cut) {
  cut->clear_value();
  for (int i = 0; i < described.value_count(); ++i) {
    if (IsStockEnumValue(*described.value(i))) described.value(i)->CopyTo(cut->add_value());
  }
}

void CutMessage(const Descriptor& described, DescriptorProto* cut) {
  cut->clear_field();
  for (int i = 0; i < described.field_count(); ++i) {
    if (IsStockField(*described.field(i))) described.field(i)->CopyTo(cut->add_field());
  }
  for (int i = 0; i < described.enum_type_count(); ++i) {
    CutEnum(*described.enum_type(i), cut->mutable_enum_type(i));
  }
}

// "Message:number" of every field that the schema does not have.
void FindUnknown(const Message& message, std::set<std::string>* found) {
  const auto& unknown = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i) {
    found->insert(message.GetDescriptor()->name() + ":" +
                  std::to_string(unknown.field(i).number()));
  }
  std::vector<const FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (const FieldDescriptor* field : set) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (!field->is_repeated()) {
      FindUnknown(message.GetReflection()->GetMessage(message, field), found);
      continue;
    }
    for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i) {
      FindUnknown(message.GetReflection()->GetRepeatedMessage(message, field, i), found);
    }
  }
}

class StockFile : public ::testing::Test {
 protected:
  StockFile() {
    google::protobuf::FileDescriptorProto file;
    const auto& described = *NetParameter::descriptor()->file();
    described.CopyTo(&file);
    for (int i = 0; i < described.message_type_count(); ++i) {
      CutMessage(*described.message_type(i), file.mutable_message_type(i));
    }
    for (int i = 0; i < described.enum_type_count(); ++i) {
      CutEnum(*described.enum_type(i), file.mutable_enum_type(i));
    }
    const auto* built = pool_.BuildFile(file);
    net_.reset(factory_.GetPrototype(built->FindMessageTypeByName("NetParameter"))->New());
  }

  std::set<std::string> UnknownIn(const std::string& bytes) {
    EXPECT_TRUE(net_->ParseFromString(bytes));
    std::set<std::string> found;
    FindUnknown(*net_, &found);
    return found;
  }

  google::protobuf::DescriptorPool pool_;
  google::protobuf::DynamicMessageFactory factory_;
  std::unique_ptr<Message> net_;
};

constexpr const char* kStockNet = R"(name: "n"
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 1 dim: 8 dim: 8 } } }
layer { name: "c" type: "Convolution" bottom: "x" top: "c" param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "r" type: "ReLU" bottom: "c" top: "c" }
layer { name: "p" type: "Pooling" bottom: "c" top: "p" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "i" type: "InnerProduct" bottom: "p" top: "i" inner_product_param { num_output: 2 } }
layer { name: "s" type: "Softmax" bottom: "i" top: "s" }
)";

TEST_F(StockFile, OnlyTheSealsAreUnknownToCaffe) {
  const test::TempDir folder;
  const auto plan = test::PlanText(kStockNet, TEST);
  WriteCaffemodel(Weights::Make(*plan, 1)->Export(*plan), folder.File("m"));
  EXPECT_EQ(UnknownIn(folder.Read("m")),
            (std::set<std::string>{"NetParameter:1000", "NetParameter:1001"}));
  // It has everything that Caffe reads: names, types and blobs with shapes and values.
  NetParameter copy;
  ASSERT_TRUE(copy.ParseFromString(net_->SerializeAsString()));
  ASSERT_EQ(copy.layer_size(), 6);
  EXPECT_EQ(copy.layer(1).name(), "c");
  EXPECT_EQ(copy.layer(1).blobs(0).shape().dim_size(), 4);
  EXPECT_EQ(copy.layer(1).blobs(0).data_size(), 36);
  EXPECT_EQ(copy.layer(1).blobs(1).data_size(), 4);
}

TEST_F(StockFile, TheCutSchemaFindsForkFields) {
  NetParameter net;
  LayerParameter* layer = net.add_layer();
  layer->mutable_prior_box_param()->set_flip(true);
  layer->mutable_convolution_param()->set_engine(ConvolutionParameter::MKLDNN);
  const std::set<std::string> unknown = UnknownIn(net.SerializeAsString());
  EXPECT_EQ(unknown.size(), 2u);
  EXPECT_TRUE(unknown.contains("ConvolutionParameter:15")) << *unknown.begin();
}

}  // namespace
}  // namespace crema
