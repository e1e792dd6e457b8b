#include "store/rows.hpp"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <charconv>

#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"

namespace ate::store {

namespace {

std::string deterministic(const google::protobuf::MessageLite& message) {
  std::string bytes;
  bytes.reserve(message.ByteSizeLong());
  {
    google::protobuf::io::StringOutputStream sink(&bytes);
    google::protobuf::io::CodedOutputStream coded(&sink);
    coded.SetSerializationDeterministic(true);
    message.SerializeWithCachedSizes(&coded);
  }
  return bytes;
}

std::unexpected<Error> without_key(const char* what) {
  return fail(Errc::Internal, std::string("a ") + what + " without its id can't be stored");
}

Result<Rows::Actor> encode_actor(const v1alpha1::ActorRecord& record) {
  const v1alpha1::Metadata& metadata = record.actor().metadata();
  if (metadata.uid().empty() || metadata.name().empty()) {
    return without_key("actor");
  }
  return Rows::Actor{.uid = metadata.uid(),
                     .atespace = metadata.atespace(),
                     .name = metadata.name(),
                     .state = v1alpha1::ActorStatus::State_Name(record.actor().status().state()),
                     .record = deterministic(record)};
}

template <class Message>
std::int64_t version_in(const std::string& bytes) {
  Message message;
  return message.ParseFromString(bytes) ? parse_version(message.metadata().resource_version()) : 0;
}

Status encode_actors(const Batch& batch, Rows& rows) {
  rows.actors.reserve(batch.put_actors.size());
  for (const auto& record : batch.put_actors) {
    ATE_ASSIGN(Rows::Actor row, encode_actor(*record));
    rows.resource_version = std::max(rows.resource_version,
                                     parse_version(record->actor().metadata().resource_version()));
    rows.actors.push_back(std::move(row));
  }
  return {};
}

Status encode_keyed(const Batch& batch, Rows& rows) {
  for (const auto& operation : batch.put_operations) {
    if (operation->id().empty()) {
      return without_key("operation");
    }
    rows.operations.push_back({.id = operation->id(),
                               .actor_uid = operation->actor().uid(),
                               .state = v1alpha1::Operation::State_Name(operation->state()),
                               .record = deterministic(*operation)});
  }
  for (const auto& snapshot : batch.put_snapshots) {
    if (snapshot->id().empty()) {
      return without_key("snapshot");
    }
    rows.snapshots.push_back({.id = snapshot->id(),
                              .actor_uid = snapshot->actor().uid(),
                              .state = snapshot->state(),
                              .record = deterministic(*snapshot)});
  }
  return {};
}

}  // namespace

std::int64_t parse_version(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc{} && stopped == end ? value : 0;
}

std::int64_t object_version(const ObjectRow& row) {
  if (row.kind == "ActorTemplate") {
    return version_in<v1alpha1::ActorTemplate>(row.bytes);
  }
  if (row.kind == "WorkerPool") {
    return version_in<v1alpha1::WorkerPool>(row.bytes);
  }
  if (row.kind == "SandboxConfig") {
    return version_in<v1alpha1::SandboxConfig>(row.bytes);
  }
  return 0;
}

Result<Rows> encode(Batch batch) {
  Rows rows;
  ATE_TRY(encode_actors(batch, rows));
  ATE_TRY(encode_keyed(batch, rows));
  rows.events.reserve(batch.events.size());
  for (const auto& event : batch.events) {
    rows.events.push_back({.actor_uid = event->actor().uid(), .record = deterministic(*event)});
  }
  rows.gone_actors = std::move(batch.delete_actors);
  rows.gone_snapshots = std::move(batch.delete_snapshots);
  rows.objects = std::move(batch.put_objects);
  rows.gone_objects = std::move(batch.delete_objects);
  rows.meta = std::move(batch.put_meta);
  rows.requests = std::move(batch.put_requests);
  rows.gone_requests = std::move(batch.delete_requests);
  for (const ObjectRow& row : rows.objects) {
    rows.resource_version = std::max(rows.resource_version, object_version(row));
  }
  return rows;
}

}  // namespace ate::store
