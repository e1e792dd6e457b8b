// Prints what the code serves, for openapi_test.py: one line per route and per message field.
#include <cstdio>

#include "ate/api/api.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"
#include "ate/v1alpha1/requests.pb.h"

namespace {

void print_message(const google::protobuf::Descriptor& message) {
  if (message.options().map_entry()) {
    return;
  }
  std::printf("message %s\n", message.name().c_str());
  for (int i = 0; i < message.field_count(); ++i) {
    std::printf("field %s %s\n", message.name().c_str(), message.field(i)->json_name().c_str());
  }
  for (int i = 0; i < message.nested_type_count(); ++i) {
    print_message(*message.nested_type(i));
  }
}

void print_file(const google::protobuf::FileDescriptor& file) {
  for (int i = 0; i < file.message_type_count(); ++i) {
    print_message(*file.message_type(i));
  }
}

}  // namespace

int main() {
  for (const ate::api::RouteInfo& route : ate::api::route_table()) {
    std::printf("route %.*s %s %s", static_cast<int>(route.method.size()), route.method.data(),
                route.pattern.c_str(),
                route.planned ? "planned"
                : route.body  ? "body"
                              : "nobody");
    for (const std::string_view name : route.query) {
      std::printf(" %.*s", static_cast<int>(name.size()), name.data());
    }
    std::printf("\n");
  }
  print_file(*ate::v1alpha1::ActorTemplate::descriptor()->file());
  print_file(*ate::v1alpha1::Actor::descriptor()->file());
  print_file(*ate::v1alpha1::ResumeRequest::descriptor()->file());
  return 0;
}
