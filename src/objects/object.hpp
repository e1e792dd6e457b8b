#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ate/objects/catalog.hpp"
#include "ate/util/error.hpp"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace ate::v1alpha1 {
class Metadata;
class ObjectStatus;
}  // namespace ate::v1alpha1

/// The three kinds behind one view, so that ownership, generations and storage are written once.
namespace ate::objects {

using Message = google::protobuf::Message;
using ObjectPtr = std::shared_ptr<const Message>;

struct Key {
  Kind kind = Kind::ActorTemplate;
  std::string atespace;  // "" for node-global kinds
  std::string name;

  auto operator<=>(const Key&) const = default;
};

[[nodiscard]] std::string_view name(Kind kind);
[[nodiscard]] bool parse_kind(std::string_view text, Kind& kind);
/// "ActorTemplate/default/counter", "WorkerPool/small".
[[nodiscard]] std::string text_of(const Key& key);
/// What is said of the second of two documents that define one object.
[[nodiscard]] std::string defined_twice(const Key& key, const std::string& first_file);

[[nodiscard]] std::unique_ptr<Message> make_object(Kind kind);
[[nodiscard]] std::unique_ptr<Message> copy_of(const Message& object);
[[nodiscard]] const v1alpha1::Metadata& metadata_of(const Message& object);
[[nodiscard]] v1alpha1::Metadata& metadata_of(Message& object);
[[nodiscard]] const v1alpha1::ObjectStatus& status_of(const Message& object);
[[nodiscard]] v1alpha1::ObjectStatus& status_of(Message& object);
[[nodiscard]] Key key_of(Kind kind, const Message& object);

void fill_defaults(Message& object);
/// Deterministic bytes of the spec alone.
[[nodiscard]] std::string spec_bytes(const Message& object);
/// Digest of the spec with what it pins (images, assets): a new one is a new generation.
[[nodiscard]] std::string digest_of(const Message& object);
/// Bytes for the store: what is derived at load (state of images, problems) is left out.
[[nodiscard]] std::string stored_bytes(const Message& object);
/// Spec and labels and annotations are equal: writing it would change nothing.
[[nodiscard]] bool is_same(const Message& a, const Message& b);

[[nodiscard]] bool is_default_config(const Message& object, std::string* sandbox_class);
void set_problems(v1alpha1::ObjectStatus& status, const std::vector<Problem>& problems);

}  // namespace ate::objects
