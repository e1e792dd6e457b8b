#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include "ate/store/store.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "ate/v1alpha1/objects.pb.h"
#include "support/run_coro.hpp"
#include "support/temp_dir.hpp"

namespace ate::test {

inline std::shared_ptr<v1alpha1::ActorRecord> actor(const std::string& uid, const std::string& name,
                                                    std::int64_t version) {
  auto record = std::make_shared<v1alpha1::ActorRecord>();
  v1alpha1::Metadata* metadata = record->mutable_actor()->mutable_metadata();
  metadata->set_uid(uid);
  metadata->set_name(name);
  metadata->set_atespace("default");
  metadata->set_resource_version(std::to_string(version));
  metadata->set_created_at("2026-11-30T18:35:52.123Z");
  (*metadata->mutable_labels())["tier"] = "small";
  record->mutable_actor()->mutable_spec()->mutable_template_()->set_name("counter");
  record->mutable_actor()->mutable_status()->set_state(v1alpha1::ActorStatus::SUSPENDED);
  record->mutable_actor()->mutable_status()->set_reason("new");
  record->set_next_serial(1);
  return record;
}

inline std::shared_ptr<v1alpha1::Operation> operation(const std::string& id,
                                                      const std::string& actor_uid,
                                                      v1alpha1::Operation::State state) {
  auto record = std::make_shared<v1alpha1::Operation>();
  record->set_id(id);
  record->set_verb("resume");
  record->mutable_actor()->set_uid(actor_uid);
  record->mutable_actor()->set_name("a");
  record->set_state(state);
  record->set_created_at("2026-11-30T18:35:52.123Z");
  return record;
}

inline std::shared_ptr<v1alpha1::Event> event(const std::string& type,
                                              const std::string& actor_uid) {
  auto record = std::make_shared<v1alpha1::Event>();
  record->set_type(type);
  record->set_time("2026-11-30T18:35:52.123Z");
  record->mutable_actor()->set_uid(actor_uid);
  return record;
}

inline std::shared_ptr<v1alpha1::Snapshot> snapshot(const std::string& id,
                                                    const std::string& actor_uid) {
  auto record = std::make_shared<v1alpha1::Snapshot>();
  record->set_id(id);
  record->mutable_actor()->set_uid(actor_uid);
  record->set_state("Ready");
  record->set_manifest_sha256(std::string(64, 'a'));
  return record;
}

/// Opens, runs `use(store)`, closes.
template <class F>
void with_store(const std::string& path, F use) {
  run_coro([&](async::Context& context) -> async::Task<void> {
    Result<std::unique_ptr<store::Store>> opened = store::open_sqlite(context, path);
    if (!opened) {
      throw std::runtime_error(opened.error().message());
    }
    co_await use(**opened);
    co_await (*opened)->close();
  });
}

/// What opening says when it must fail; "" when it did not.
inline std::string refusal(const std::string& path) {
  boost::asio::io_context loop(1);
  boost::asio::thread_pool pool(1);
  async::Context context{loop, pool};
  Result<std::unique_ptr<store::Store>> opened = store::open_sqlite(context, path);
  return opened ? std::string{} : opened.error().message();
}

}  // namespace ate::test
