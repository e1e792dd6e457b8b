#pragma once

#include <memory>
#include <string>

#include "ate/artifacts/artifacts.hpp"
#include "ate/v1alpha1/actor.pb.h"
#include "support/run_coro.hpp"
#include "support/temp_dir.hpp"

namespace ate::test {

inline std::shared_ptr<v1alpha1::SnapshotManifest> manifest() {
  auto made = std::make_shared<v1alpha1::SnapshotManifest>();
  made->mutable_actor()->set_name("c1");
  made->mutable_actor()->set_uid("01jdz0000000000000000000a1");
  made->set_kind("suspend");
  made->set_scope("FULL");
  (*made->mutable_assets())["runsc"] = "sha256:" + std::string(64, 'a');
  made->set_memory_bytes(998244352);
  made->set_vcpus(2);
  made->set_oci_spec(R"({"ociVersion":"1.0.2","process":{"args":["sh"]}})");
  return made;
}

inline artifacts::SnapshotStore::Options in(const std::string& directory) {
  artifacts::SnapshotStore::Options options;
  options.directory = directory;
  options.reserve_bytes = 0;
  return options;
}

template <class T>
T must(Result<T> result) {
  if (!result) {
    throw std::runtime_error(result.error().message());
  }
  return std::move(*result);
}

inline void must(Status status) {
  if (!status) {
    throw std::runtime_error(status.error().message());
  }
}

/// begin, three files of payload, seal.
inline async::Task<artifacts::SnapshotStore::Sealed> make_snapshot(artifacts::SnapshotStore& store,
                                                                   std::string id) {
  Result<std::string> begun = co_await store.begin(id);
  const std::string directory = must(std::move(begun));
  write_file(directory + "/checkpoint.img", "state");
  write_file(directory + "/pages.img", std::string(3'000'000, 'p'));
  write_file(directory + "/pages_meta.img", "");
  Result<artifacts::SnapshotStore::Sealed> sealed = co_await store.seal(id, manifest());
  co_return must(std::move(sealed));
}

}  // namespace ate::test
